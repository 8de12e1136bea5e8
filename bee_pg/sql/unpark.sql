-- Look at keys that were let go, or whose time has come: the first of those that are parked under them
-- stand in the line again, as many as there is room for. Those that only wait to be taken over always do.
-- per_key, key_times, key_per   those of `lease`
-- returns   whether there may be more such keys; those about which somebody else decides at this very
--           moment; whether we decide about any; and where in the line messages stand again
-- locks     an advisory lock per key (turn.sql); what somebody else has locked is left to him, and the
--           note of its key stays if he has all there is: he may undo what he does
create or replace function unpark(
  queue text, now timestamptz, most integer, per_key integer, key_times bigint, key_per double precision,
  out more boolean, out busy text[], out had boolean, out ranks smallint[], out dues timestamptz[]
)
language plpgsql set search_path from current set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off set plan_cache_mode = auto as $$
#variable_conflict use_column
declare
  notes  tid[];
  keys   text[];
  free   bigint[];
  agains timestamptz[];
  places tid[];
  woken  text[];
begin
  select coalesce(array_agg(w.ctid), '{}'), array_agg(distinct w.key) into notes, keys from (
    select w.ctid, w.key from wake w where w.queue = unpark.queue and w.at <= now
    order by w.at limit 250 for update skip locked
  ) w;
  more := false;
  busy := turn(unpark.queue, keys);
  keys := array(select k.key from unnest(keys) as k (key) where k.key <> all (busy));
  had := keys <> '{}';
  if not had then
    return;
  end if;

  -- From here on each statement sees what others have done with these keys, and nobody does any more.
  select array_agg(k.key), array_agg(greatest(0, least(most, per_key - h.held, r.room))), array_agg(r.again)
    into keys, free, agains
    from unnest(keys) as k (key)
    cross join lateral (
      select count(*) as held from message m
      where m.queue = unpark.queue and m.key = k.key and (m.token is null)::integer = 0 and per_key is not null
    ) h
    left join lateral (
      select r.room, r.again from room(unpark.queue, k.key, now, key_times, key_per) r
      where key_times is not null
    ) r on true;
  places := array(
    select m.ctid from message m
    where m.ctid = any (array( -- not the next that nobody has locked: no other may go before it
      select m.ctid from unnest(keys, free, agains) as k (key, free, again), lateral (
        select m.ctid from message m
        where m.queue = unpark.queue and m.key = k.key and (m.token is null)::integer = 1 and m.parked and k.again is null
        order by -m.priority, m.due, m.number limit k.free
      ) m
    )) and m.parked
    for update skip locked
  ) || array(
    select m.ctid from unnest(keys, agains) as k (key, again), lateral (
      select m.ctid from message m
      where m.queue = unpark.queue and m.key = k.key and (m.token is null)::integer = 0 and m.parked and k.again is null
      for update skip locked
    ) m
  );
  with back as (
    update message m set parked = false where m.ctid = any (places) returning m.key, -m.priority as rank, m.due
  )
  select array_agg(b.key), array_agg(b.rank::smallint), array_agg(b.due) into woken, ranks, dues from back b;

  delete from wake w where w.ctid = any (notes) and w.key = any (array(
    select k.key from unnest(keys, free, agains) as k (key, free, again)
    where k.free = 0 or k.again is not null or k.key = any (woken) or not exists (
      select from message m
      where m.queue = unpark.queue and m.key = k.key and (m.token is null)::integer in (0, 1) and m.parked
    )
  ));
  more := found and cardinality(notes) = 250;
  insert into wake (queue, key, at, rated)
    select unpark.queue, k.key, k.again, true from unnest(keys, agains) as k (key, again)
    where k.again is not null
      and exists (
        select from message m
        where m.queue = unpark.queue and m.key = k.key and (m.token is null)::integer in (0, 1) and m.parked
      )
      and not exists (
        select from wake w where w.queue = unpark.queue and w.key = k.key and w.rated and w.at <= k.again
      );
end $$;
