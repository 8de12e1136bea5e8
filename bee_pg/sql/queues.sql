-- The names of all queues that hold something or are paused. Each costs one look into an index,
-- however many messages it holds.
create or replace function queues() returns setof text
language sql stable set search_path from current set enable_seqscan = off set jit = off as $$
  with recursive live (name) as (
    (select m.queue from message m order by m.queue limit 1)
    union all
    select (select m.queue from message m where m.queue > l.name order by m.queue limit 1)
    from live l where l.name is not null
  ), kept (name) as (
    (select a.queue from archive a order by a.queue limit 1)
    union all
    select (select a.queue from archive a where a.queue > k.name order by a.queue limit 1)
    from kept k where k.name is not null
  )
  select name from live where name is not null
  union select name from kept where name is not null
  union select queue from paused;
$$;
