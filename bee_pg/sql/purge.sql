-- Delete up to `most` messages that wait: ready, delayed or blocked. What is held is left alone.
-- returns   how many
create or replace function purge(queue text, most integer) returns bigint
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  places  tid[];
  waiting text[];
  keys    text[];
  blocked bigint;
begin
  places := array( -- and then deleted, so that what changed while we waited for it is seen
    select w.ctid from message w
    where w.queue = purge.queue and not w.leased and w.token is null
    order by w.id limit most for update
  );
  with gone as (
    delete from message m where m.ctid = any (places) returning m.id, m.key
  )
  select coalesce(array_agg(g.id), '{}'), array_agg(distinct g.key) into waiting, keys from gone g;
  perform forget(purge.queue, waiting), let_go(purge.queue, keys);
  delete from successor s where s.ctid = any (array(
    select w.ctid from successor w where w.queue = purge.queue limit most - cardinality(waiting) for update
  ));
  get diagnostics blocked = row_count;
  return cardinality(waiting) + blocked;
end $$;
