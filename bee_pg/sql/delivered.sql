-- Count deliveries against a rate: see room.sql. What is older than the rate looks back is removed on the
-- way, and some of what other keys have left.
create or replace function delivered(
  queue text, key text, now timestamptz, times bigint, per double precision
) returns void
language plpgsql set search_path from current set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
begin
  update delivery d set at = now, count = d.count + times where d.ctid = (
    select l.ctid from delivery l
    where l.queue = delivered.queue and l.key = delivered.key
    order by l.at desc limit 1
  ) and d.since > now - make_interval(secs => per / 1000);
  if not found then
    insert into delivery (queue, key, since, at, count)
      values (delivered.queue, delivered.key, now, now, times);
  end if;
  delete from delivery d where d.ctid = any (array(
    select o.ctid from delivery o
    where o.queue = delivered.queue and o.key = delivered.key and o.at <= now - make_interval(secs => per)
    for update skip locked
  ));
  delete from delivery d where delivered.key <> '' and d.ctid = any (array(
    select o.ctid from delivery o
    where o.queue = delivered.queue and o.key <> '' and o.at <= now - make_interval(secs => per)
    order by o.at limit 10 for update skip locked
  ));
end $$;
