-- Counts of a queue, exact and from one moment. `archived` holds reason, count, reason, count, ...
-- `token` is one that none is greater than; 0 for those who may only look at tables.
create or replace function stats(
  queue text, out ready bigint, out delayed bigint, out leased bigint, out blocked bigint,
  out oldest_due double precision, out paused boolean, out archived text[], out created bigint,
  out token bigint
)
language sql stable set search_path from current as $$
  select
    line.ready + leases.over + parked.count,
    line.delayed,
    leases.held,
    (select count(*) from successor s where s.queue = stats.queue),
    date_part('epoch', t.now - least(line.first, leases.first, parked.first)),
    exists (select from paused p where p.queue = stats.queue),
    array(
      select unnest(array[y.reason, sum(y.count)::text]) from tally y
      where y.queue = stats.queue group by y.reason having sum(y.count) > 0
    ),
    (select coalesce(sum(c.count), 0)::bigint from created c where c.queue = stats.queue),
    case when has_sequence_privilege('token', 'usage, select')
      then coalesce(pg_sequence_last_value('token'), 0) else 0 end
  from (select clock_timestamp() as now offset 0) t,
  lateral (
    select count(*) filter (where m.due <= t.now) as ready,
           count(*) filter (where m.due > t.now) as delayed,
           min(m.due) filter (where m.due <= t.now) as first
    from message m where m.queue = stats.queue and not m.leased and not m.parked
  ) line,
  lateral (
    select count(*), min(m.due) as first from message m where m.queue = stats.queue and m.key is not null and m.parked
  ) parked,
  lateral (
    select count(*) filter (where m.leased_until <= t.now) as over,
           count(*) filter (where m.leased_until > t.now) as held,
           min(m.due) filter (where m.leased_until <= t.now) as first
    from message m where m.queue = stats.queue and m.leased
  ) leases;
$$;
