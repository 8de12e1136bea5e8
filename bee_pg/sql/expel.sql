-- Delete messages that are as they were seen. They report to nobody.
-- kept      whether each is archived; then its incarnation says all
-- counts    six counters per message, one after the other
-- returns   the numbers, from 1, of those that are not there like that
-- locks     as `cancel` does; and archived ones in the order of their ids
-- plans     made for each call: one that was made while the archive was empty may read all of it
create or replace function expel(
  queue text, ids text[], incarnations bigint[], kept boolean[], dues double precision[], priorities smallint[],
  counts integer[], keys text[], heads bytea[], bodies bytea[]
) returns bigint[]
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  places tid[];
  gone   bigint[];
  more   bigint[];
  freed  text[]; -- keys
begin
  perform from message m
    where m.queue = expel.queue and m.id = any (array(
      select d.id from unnest(ids, kept) as d (id, kept) where not d.kept
    ))
    order by m.awaits is not null, m.reports_to is null, m.id for update;
  -- 1. check. "offset 0": one look by its id for each that was seen, whatever the statistics say. Joined the other way
  -- round, all of a queue that was never analysed is compared with all of the batch.
  select coalesce(array_agg(h.place), '{}'), array_agg(h.n), array_agg(h.key) into places, gone, freed from (
    select m.place, m.key, min(d.n) as n -- one may have been seen twice
    from unnest(ids, incarnations, kept, dues, priorities, keys, heads, bodies)
      with ordinality as d (id, incarnation, kept, due, priority, key, head, body, n)
    cross join lateral (
      select m.ctid as place, m.* from message m where m.queue = expel.queue and m.id = d.id offset 0
    ) m
    where not d.kept and m.incarnation = d.incarnation and m.token is null and m.due = to_timestamp(d.due)
      and m.priority = d.priority and m.key is not distinct from d.key and m.headers is not distinct from d.head
      and m.body = d.body
      and array[m.deliveries, m.errors, m.timeouts, m.stalls, m.releases, m.unknowns] = counts[6 * d.n - 5 : 6 * d.n]
    group by m.place, m.key
  ) h;
  delete from message m where m.ctid = any (places); -- 2. delete
  perform let_go(expel.queue, freed); -- 3. let go

  -- 1. check, of archived ones
  select coalesce(array_agg(h.place), '{}'), array_agg(h.n) into places, more from (
    select a.place, min(d.n) as n from (
      select d.* from unnest(ids, incarnations, kept) with ordinality as d (id, incarnation, kept, n)
      where d.kept order by d.id collate "C", d.incarnation
    ) d
    cross join lateral (
      select a.ctid as place from archive a
      where a.queue = expel.queue and a.id = d.id and a.incarnation = d.incarnation for update
    ) a
    group by a.place
  ) h;
  delete from archive a where a.ctid = any (places); -- 2. delete
  gone := coalesce(gone, '{}') || coalesce(more, '{}');
  if exists (select from report r where r.queue = expel.queue) then -- 3. let go
    perform forget(expel.queue, array(select ids[n] from unnest(gone) as g (n)));
  end if;
  perform ring(expel.queue, (select count(f.key) from unnest(freed) as f (key))); -- 4. ring
  return array(select n from generate_subscripts(ids, 1) n where n <> all (gone));
end $$;
