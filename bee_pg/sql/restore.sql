-- Bring back, of each id, the message that was archived last: ready now, as a fresh incarnation with
-- the old one's history.
-- returns   the ids that were not restored: not in the archive, or live again
create or replace function restore(queue text, ids text[]) returns text[]
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  now      timestamptz := clock_timestamp();
  restored text[];
begin
  with newest as materialized (
    select a.*, i.n from (
      select d.id, min(d.n) as n from unnest(ids) with ordinality as d (id, n) group by d.id
    ) i,
    lateral (
      select a.* from archive a where a.queue = restore.queue and a.id = i.id
      order by a.archived_at desc, a.incarnation desc limit 1 for update
    ) a
  ), numbered as materialized (
    select w.*, nextval('number') as number from (select * from newest order by n) w
  ), fresh as (
    insert into message (queue, id, incarnation, number, priority, sent_at, due, headers, body,
                         key, awaits, reports_to, history, heard)
      select w.queue, w.id, w.number, w.number, w.priority, now, now, w.headers, w.body,
             w.key, w.awaits, w.reports_to, w.history, case when w.awaits is not null then (
               select count(*) from report r where r.queue = w.queue and r.parent = w.id
             ) end
      from numbered w order by w.id
      on conflict (queue, id) do nothing
      returning id
  ), gone as (
    delete from archive a using numbered w, fresh c
    where c.id = w.id and a.queue = w.queue and a.id = w.id and a.incarnation = w.incarnation
  ), counted as (
    insert into created (queue, count) select restore.queue, count(*) from fresh having count(*) > 0
  )
  select array_agg(c.id) into restored from fresh c;
  perform ring(restore.queue, cardinality(restored));
  return array(select i.id from unnest(ids) as i (id) where i.id <> all (coalesce(restored, '{}')));
end $$;
