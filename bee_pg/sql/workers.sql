-- Who holds leases of a queue: name, how many, and when the first of them runs out.
create or replace function workers(queue text)
returns table (name text, leases bigint, leased_until double precision)
language sql stable set search_path from current set enable_seqscan = off set jit = off as $$
  select m.holder, count(*), min(date_part('epoch', m.leased_until))
  from message m
  where m.queue = workers.queue and m.leased and m.leased_until > clock_timestamp()
  group by m.holder order by m.holder collate "C";
$$;
