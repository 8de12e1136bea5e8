-- Seconds until something of a queue may be ready: 0 or less if it is, null if nothing is to come.
-- `lows` and `since` are those of `lease`.
create or replace function upcoming(
  queue text, lows double precision[] default null, since double precision default null
) returns double precision
language sql stable set search_path from current
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select date_part('epoch', least(
    (
      select min(w.due)
      from generate_series(-9, 9) as level (rank), lateral (
        select m.due from message m
        where m.queue = upcoming.queue and not m.leased and not m.parked and (-m.priority) = level.rank
          and m.due >= coalesce(to_timestamp(lows[level.rank + 10]), '-infinity')
        order by m.due limit 1
      ) w
    ),
    (
      select m.leased_until from message m
      where m.queue = upcoming.queue and m.leased
        and m.leased_until > coalesce(clock_timestamp() - make_interval(secs => since), '-infinity')
      order by m.leased_until limit 1
    ),
    (select w.at from wake w where w.queue = upcoming.queue order by w.at limit 1)
  ) - clock_timestamp())
  where not exists (select from paused p where p.queue = upcoming.queue);
$$;
