-- How many more deliveries a rate allows (`times` in any `per` seconds), of a key or, if that is empty,
-- of the queue; and when it allows the next, if that is not now. Who asks has to be the only one.
create or replace function room(
  queue text, key text, now timestamptz, times bigint, per double precision,
  out room bigint, out again timestamptz
)
language plpgsql set search_path from current set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  select times - coalesce(sum(d.count), 0), min(d.at) filter (where d.before < times) + make_interval(secs => per)
    into room, again
    from (
      select d.at, d.count, sum(d.count) over (order by d.at desc rows unbounded preceding) - d.count as before
      from delivery d
      where d.queue = room.queue and d.key = room.key and d.at > now - make_interval(secs => per)
    ) d;
  if room > 0 then
    again := null;
  end if;
end $$;
