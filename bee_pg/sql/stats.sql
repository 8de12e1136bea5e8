-- Counts of a queue, exact and from one moment. `archived` holds reason, count, reason, count, ...
create or replace function stats(
  queue text, out ready bigint, out delayed bigint, out leased bigint, out blocked bigint,
  out oldest_due double precision, out paused boolean, out archived text[]
)
language sql stable set search_path from current as $$
  select
    line.ready + leases.over,
    line.delayed,
    leases.held,
    (select count(*) from successor s where s.queue = stats.queue),
    date_part('epoch', t.now - least(line.first, leases.first)),
    exists (select from paused p where p.queue = stats.queue),
    array(
      select unnest(array[y.reason, sum(y.count)::text]) from tally y
      where y.queue = stats.queue group by y.reason having sum(y.count) > 0
    )
  from (select clock_timestamp() as now offset 0) t,
  lateral (
    select count(*) filter (where m.due <= t.now) as ready,
           count(*) filter (where m.due > t.now) as delayed,
           min(m.due) filter (where m.due <= t.now) as first
    from message m where m.queue = stats.queue and not m.leased
  ) line,
  lateral (
    select count(*) filter (where m.leased_until <= t.now) as over,
           count(*) filter (where m.leased_until > t.now) as held,
           min(m.due) filter (where m.leased_until <= t.now) as first
    from message m where m.queue = stats.queue and m.leased
  ) leases;
$$;
