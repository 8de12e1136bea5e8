-- Delete up to `most` messages that wait: ready, delayed or blocked. What is held is left alone.
-- returns   how many
create or replace function purge(queue text, most integer) returns bigint
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  waiting bigint;
  blocked bigint;
begin
  delete from message m where m.ctid = any (array(
    select w.ctid from message w
    where w.queue = purge.queue and not w.leased and w.token is null
    order by w.id limit most for update
  ));
  get diagnostics waiting = row_count;
  delete from successor s where s.ctid = any (array(
    select w.ctid from successor w where w.queue = purge.queue limit most - waiting for update
  ));
  get diagnostics blocked = row_count;
  return waiting + blocked;
end $$;
