-- Delete up to `most` of all that a queue holds, live messages first, and then its counts, its pause, and who has
-- announced itself.
-- returns   how many rows
create or replace function drop(queue text, most integer) returns bigint
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  gone bigint := 0;
  part bigint;
  places tid[];
begin
  -- Found and deleted one after the other, so that what changed while we waited for it is seen; and those
  -- that report before those that they report to, as one who settles locks them.
  places := array(
    select w.ctid from message w
    where w.queue = drop.queue and w.awaits is null order by w.id limit most for update
  );
  delete from message m where m.ctid = any (places);
  get diagnostics part = row_count;
  gone := gone + part;
  places := array(
    select w.ctid from message w
    where w.queue = drop.queue and w.awaits is not null
    order by w.reports_to is null, w.id limit most - gone for update
  );
  delete from message m where m.ctid = any (places);
  get diagnostics part = row_count;
  gone := gone + part;
  delete from successor s where s.queue = drop.queue; -- behind the messages: when none is left, none gets another
  delete from archive a where a.ctid = any (array(
    select o.ctid from archive o where o.queue = drop.queue limit most - gone for update
  ));
  get diagnostics part = row_count;
  gone := gone + part;
  delete from report r where r.ctid = any (array(
    select o.ctid from report o where o.queue = drop.queue limit most - gone for update
  ));
  get diagnostics part = row_count;
  gone := gone + part;
  delete from result r where r.ctid = any (array(
    select o.ctid from result o where o.queue = drop.queue limit most - gone for update
  ));
  get diagnostics part = row_count;
  gone := gone + part;
  if gone < most then
    delete from wake w where w.queue = drop.queue;
    delete from delivery d where d.queue = drop.queue;
    delete from created c where c.queue = drop.queue;
    delete from worker w where w.queue = drop.queue;
    delete from paused p where p.queue = drop.queue;
  end if;
  return gone;
end $$;
