-- After deliveries of messages with keys: count them, and see to those that are parked under the same
-- keys. Where there is room for another, or a rate has held one back, a note says when to look.
-- delivered   the keys, one for each delivery
-- held_back   keys of which some were passed over because of the rate
-- invariant   of a key under which something is parked either a message is held, or one stands in the
--             line, or there is a note in `wake`
create or replace function follow(
  queue text, delivered text[], held_back text[], now timestamptz,
  per_key integer, key_times bigint, key_per double precision
) returns void
language plpgsql set search_path from current set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off set plan_cache_mode = auto as $$
#variable_conflict use_column
begin
  if key_times is not null then
    perform delivered(follow.queue, d.key, now, d.times, key_per)
      from (select k.key, count(*) as times from unnest(follow.delivered) as k (key) group by k.key) d
      where d.key is not null;
  end if;
  insert into wake (queue, key, at, rated)
    select follow.queue, k.key, coalesce(r.again, timestamptz 'epoch'), r.again is not null
    from (select distinct u.key from unnest(follow.delivered || held_back) as u (key) where u.key is not null) k
    cross join lateral (
      select count(*) as held from message m
      where m.queue = follow.queue and m.key = k.key and (m.token is null)::integer = 0 and per_key is not null
    ) h
    left join lateral (
      select r.again from room(follow.queue, k.key, now, key_times, key_per) r where key_times is not null
    ) r on true
    where (
      k.key = any (held_back)
      or (per_key is null or h.held < per_key)
        and exists (
          select from message m
          where m.queue = follow.queue and m.key = k.key and (m.token is null)::integer in (0, 1) and m.parked
        )
    ) and not (
      r.again is not null
      and exists (
        select from wake w where w.queue = follow.queue and w.key = k.key and w.rated and w.at <= r.again
      ) -- else it is from a rate that was slower
    );
end $$;
