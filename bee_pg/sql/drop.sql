-- Delete up to `most` of all that a queue holds, the archive last, and then its pause.
-- returns   how many rows
create or replace function drop(queue text, most integer) returns bigint
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  live     bigint;
  archived bigint;
begin
  delete from message m where m.ctid = any (array(
    select w.ctid from message w where w.queue = drop.queue order by w.id limit most for update
  ));
  get diagnostics live = row_count;
  delete from successor s where s.queue = drop.queue; -- behind the messages: when none is left, none gets another
  delete from archive a where a.ctid = any (array(
    select o.ctid from archive o where o.queue = drop.queue limit most - live for update
  ));
  get diagnostics archived = row_count;
  if live + archived < most then
    delete from paused p where p.queue = drop.queue;
  end if;
  return live + archived;
end $$;
