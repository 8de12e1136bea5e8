-- Who holds leases of a queue, or has announced itself: name, how many leases, when the first of them runs
-- out; and since when it is there, how long that holds, and what it says of itself.
create or replace function workers(queue text)
returns table (
  name text, leases bigint, leased_until double precision,
  since double precision, until double precision, about bytea
)
language sql stable set search_path from current set enable_seqscan = off set jit = off as $$
  select name, coalesce(h.leases, 0), h.leased_until,
         date_part('epoch', w.since), date_part('epoch', w.until), coalesce(w.about, '')
  from (
    select m.holder collate "C" as name, count(*) as leases, min(date_part('epoch', m.leased_until)) as leased_until
    from message m
    where m.queue = workers.queue and m.leased and m.leased_until > clock_timestamp()
    group by m.holder collate "C"
  ) h
  full join (
    select w.* from worker w where w.queue = workers.queue and w.until > clock_timestamp()
  ) w using (name)
  order by name;
$$;
