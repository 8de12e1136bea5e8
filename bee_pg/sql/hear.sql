-- Add reports to what messages have heard, of each reporter the first, if there is a message left that can
-- read them: a live one that awaits reports, or an archived one. One that has never been delivered is due
-- when it has heard all that it awaits.
-- returns   how many are due now
-- locks     those that are told, in the order of their ids: see tell.sql
create or replace function hear(
  queue text, told_to text[], told_by text[], reasons text[], details bytea[], bodies bytea[]
) returns bigint
language plpgsql set search_path from current
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  now     timestamptz := clock_timestamp();
  readers text[];
  parents text[];
  counts  bigint[];
  due_now bigint;
begin
  readers := array(
    select m.id from message m
    where m.queue = hear.queue and m.id = any (told_to) and m.awaits is not null
    order by m.id for update
  ) || array(
    select a.id from archive a where a.queue = hear.queue and a.id = any (told_to)
  );
  with told as (
    insert into report (queue, parent, id, reason, detail, body)
      select hear.queue, d.parent, d.id, d.reason, d.detail, d.body
      from unnest(told_to, told_by, reasons, details, bodies)
        with ordinality as d (parent, id, reason, detail, body, n)
      where d.parent = any (readers) order by d.n
      on conflict do nothing
      returning parent
  )
  select array_agg(t.parent), array_agg(t.count) into parents, counts
    from (select parent, count(*) from told group by parent) t;
  update message m set heard = coalesce(m.heard, 0) + t.count
    from unnest(parents, counts) as t (parent, count)
    where m.queue = hear.queue and m.id = t.parent and m.awaits is not null;
  update message m set due = now, number = nextval('number')
    from unnest(parents, counts) as t (parent, count)
    where m.queue = hear.queue and m.id = t.parent and m.token is null and m.due > now and m.deliveries = 0
      and m.heard >= m.awaits and m.heard - t.count < m.awaits;
  get diagnostics due_now = row_count;
  return due_now;
end $$;
