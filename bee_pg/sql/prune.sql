-- Delete up to `most` archived messages, oldest first: at least `age` seconds old, and never the
-- newest `spared`. What was reported to those of whom nothing is left goes with them.
-- returns   how many
create or replace function prune(queue text, age double precision, spared bigint, most integer)
returns bigint
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set jit = off as $$
#variable_conflict use_column
declare
  kept bigint;
  ids  text[];
begin
  if spared > 0 then -- one at a time: two would spare different ones
    perform pg_advisory_xact_lock(hashtextextended('bee prune ' || prune.queue, 0));
  end if;
  select coalesce(sum(t.count), 0) into kept from tally t where t.queue = prune.queue;
  with gone as (
    delete from archive a where a.ctid = any (array(
      select o.ctid from archive o
      where o.queue = prune.queue and o.archived_at <= clock_timestamp() - make_interval(secs => age)
      order by o.archived_at, o.incarnation
      limit greatest(0, least(most, kept - spared))
      for update skip locked
    )) returning a.id
  )
  select array_agg(g.id) into ids from gone g;
  if exists (select from report r where r.queue = prune.queue) then
    perform forget(prune.queue, ids);
  end if;
  return coalesce(cardinality(ids), 0);
end $$;
