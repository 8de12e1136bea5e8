-- Tell messages how others have ended. Each report counts once for each id, and only if the message that
-- it goes to is live and awaits some; the last one that it awaits makes it due.
-- returns   how many were told
-- locks     those that are told, in the order of their ids: two who report to one take turns, so that one
--           of them is the last
create or replace function tell(queue text, ends ending[]) returns bigint
language plpgsql set search_path from current
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off set plan_cache_mode = auto as $$
#variable_conflict use_column
declare
  now     timestamptz := clock_timestamp();
  live    text[];
  parents text[];
  counts  bigint[];
  i       integer;
begin
  live := array(
    select m.id from message m
    where m.queue = tell.queue
      and m.id = any (array(select e.reports_to from unnest(ends) e where e.reports_to is not null))
      and m.awaits is not null
    order by m.id for update
  );
  with told as (
    insert into report (queue, parent, id, reason, detail, body)
      select tell.queue, e.reports_to, e.id, coalesce(e.reason, 'ruled'), coalesce(e.detail, ''),
             coalesce(e.body, '')
      from unnest(ends) e where e.reports_to = any (live)
      on conflict do nothing
      returning parent
  )
  select array_agg(t.parent), array_agg(t.count) into parents, counts
    from (select parent, count(*) from told group by parent) t;
  for i in 1 .. coalesce(cardinality(parents), 0) loop
    update message m set heard = coalesce(m.heard, 0) + counts[i]
      where m.queue = tell.queue and m.id = parents[i];
    update message m set due = now, number = nextval('number')
      where m.queue = tell.queue and m.id = parents[i] and m.token is null and m.due > now
        and m.heard >= m.awaits and m.heard - counts[i] < m.awaits;
  end loop;
  return coalesce(cardinality(parents), 0);
end $$;
