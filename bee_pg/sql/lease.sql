-- Take ready messages, in order, and hide them.
-- lows      per priority, from 9 down to -9: how far back in the line to look, as seconds since the
--           epoch; null is all of it. Where dead rows cannot be removed (somebody holds a snapshot)
--           they pile up in front, and going past them each time is what brings queues down. Unless
--           lows is null, rows that bear the mark of a lock (xmax) are passed by without trying it; it
--           stays on what was sent back or locked by one who failed, so now and then the look has to be
--           a whole one; this is, too, if less is found than was asked for
-- since     the same for leases that ran out: no longer ago than this many seconds; then more of
--           them are seen to at once, because the next call looks no further back than to this one
-- channel   who leases has been waiting on it, and waits no longer
-- patience  seconds: if it took longer (somebody had locked the table), who asked has given up, and
--           would not know what he holds. Then nothing is taken
-- per_key   messages of one key that may be held at once; null is any number
-- times, per, key_times, key_per   the rate of the queue and that of each key: deliveries in so many
--           seconds; null is any number
-- follows   per priority: whether others who have come further are to be followed. Not by one who has gone back
-- returns   the messages, in order; `counters` is null if this is the first delivery and nothing else was counted.
--           If there are any, or the rate of the queue allows no more, a last row without an id is about all of
--           them: when they were leased, the seconds that the first look took, and for how long to be quiet
-- locks     with a rate of the queue, an advisory lock: calls take turns. With lows, if they want many, they try to.
--           Beside that it waits for nobody, but if all it finds is keys about which others decide: then once, for
--           one of them, while it decides about none itself
-- invariant a row is locked before it is looked at, and one that somebody else has locked is his; a counter that
--           somebody has set by hand to the most there can be stays there: an error would hit the whole queue
-- plans     are made once for a session: the settings leave no choice but the indexes, and a third of a call that
--           finds one message was making plans. Not so in what decides about keys, where numbers matter
create or replace function lease(
  queue text, most integer, duration double precision, holder text,
  lows double precision[] default null, since double precision default null,
  channel text default null, patience double precision default null,
  per_key integer default 1, times bigint default null, per double precision default null,
  key_times bigint default null, key_per double precision default null, follows boolean[] default null
) returns table (
  id text, token bigint, body bytea, headers bytea, sent_at double precision, counters integer[],
  key text, reports_to text, priority smallint, due double precision,
  leased_at double precision, took double precision, quiet double precision
)
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  now    timestamptz := clock_timestamp();
  began  timestamptz;
  looked timestamptz; -- when the first look at the line was over
  wanted integer := most;
  page   integer;
  places tid[];
  keyed  bigint;
  more   boolean;
  chosen tid[];
  aside  text[];
  passed text[] := '{}'; -- keys whose messages are left alone
  busy   text[] := '{}'; -- keys about which others decide
  had    boolean := false; -- whether we decide about any
  merged text[];
  taken  text[] := '{}';
  total  integer := 0;
  keys   text[];
  ranks  smallint[];
  dues   timestamptz[];
  again  timestamptz;
  i      integer;
  front  double precision; -- where another has come to
  halted boolean; -- the queue is paused
  over   boolean; -- some leases ran out; null is no
  noted  boolean; -- keys were let go
  heirs  boolean; -- some messages have successors
  others boolean; -- somebody waits for messages
begin
  if lows is not null and most >= 50 and times is null then -- fewer do not win back the wait
    perform queue_up(lease.queue, least(0.25, patience / 4));
    since := since + date_part('epoch', clock_timestamp() - now);
    now := clock_timestamp();
    -- It begins where another has just come to; not if that has a key, as what is in front may have been left alone.
    select -m.priority, date_part('epoch', least(m.due, m.leased_at - interval '0.25 s')) into i, front from (
      select * from message m
      where m.queue = lease.queue and m.leased and m.leased_until > now + make_interval(secs => duration - 0.1)
      order by m.leased_until desc limit 1
    ) m where follows[10 - m.priority] and m.key is null;
    if front > lows[i + 10] then
      lows[i + 10] := front;
    end if;
  end if;
  if channel is not null then
    delete from idle i where i.queue = lease.queue and i.channel = lease.channel;
  end if;
  select exists (select from paused p where p.queue = lease.queue),
         (select true from message m where m.queue = lease.queue and m.leased and m.leased_until <= now
            and m.leased_until > coalesce(now - make_interval(secs => since), '-infinity')
          order by m.leased_until limit 1),
         exists (select from wake w where w.queue = lease.queue and w.at <= now),
         exists (select from successor s where s.queue = lease.queue),
         exists (select from idle i where i.queue = lease.queue)
    into halted, over, noted, heirs, others;
  if halted then
    return;
  end if;
  if times is not null then
    perform pg_advisory_xact_lock(hashtextextended('bee rate ' || current_schema() || ' ' || lease.queue, 0));
    now := clock_timestamp();
    select least(most, r.room), r.again into wanted, again from room(lease.queue, '', now, times, per) r;
  end if;

  -- Leases that ran out stand in the line again, at their old place. The token stays: their
  -- holders may still settle, until somebody takes the message over.
  if over then
    update message m set leased = false
      where m.ctid = any (array(
        select l.ctid from message l
        where l.queue = lease.queue and l.leased and l.leased_until <= now
          and l.leased_until > coalesce(now - make_interval(secs => since), '-infinity')
        order by l.leased_until limit greatest(most, case when since is null then 100 else 1000 end)
        for update skip locked
      ));
  end if;

  page := wanted;
  while wanted > 0 loop
    -- Keys that were let go: those who wait for them stand in the line again.
    more := false;
    busy := '{}';
    if noted then
      select u.more, u.busy, had or u.had, u.ranks, u.dues into more, busy, had, ranks, dues
        from unpark(lease.queue, now, wanted, per_key, key_times, key_per) u;
      for i in 1 .. coalesce(cardinality(ranks), 0) loop
        if lows[ranks[i] + 10] > date_part('epoch', dues[i]) then
          lows[ranks[i] + 10] := date_part('epoch', dues[i]) - 0.001;
        end if;
      end loop;
    end if;

    began := coalesce(began, clock_timestamp());
    select coalesce(array_agg(w.ctid), '{}'), count(w.key) into places, keyed from (
      select w.ctid, w.key
      from generate_series(-9, 9) as level (rank), lateral (
        select m.ctid, m.key from message m
        where m.queue = lease.queue and not m.leased and not m.parked
          and (-m.priority) = level.rank and m.due <= now
          and m.due >= coalesce(to_timestamp(lows[level.rank + 10]), '-infinity')
          and (m.key is null or m.key <> all (passed))
          and (lows is null or m.xmax = 0) -- trying a lock costs many times as much as passing by
        order by m.due, m.number limit page
        for update skip locked
      ) w
      limit page
    ) w;
    looked := coalesce(looked, clock_timestamp());
    if lows is not null and cardinality(places) < page then -- there may be more where this has not looked
      lows := null;
      continue;
    end if;
    chosen := places;
    aside := null;
    if keyed > 0 then
      select a.admitted, passed || a.left, a.held_back, more or a.more, had or a.had
        into chosen, passed, aside, more, had
        from admit(lease.queue, places, now, per_key, key_times, key_per) a;
    end if;
    chosen := chosen[:wanted];

    -- One that is taken over has its successor merged first, and may then be due later. Those behind it
    -- are looked at again: it may have got, or let go, a key.
    merged := '{}';
    if heirs then
      select coalesce(array_agg(f.id), '{}'), array_agg(f.key), min(f.place) into merged, keys, i from (
        select m.id, m.key, c.place
        from unnest(chosen) with ordinality as c (ctid, place)
        join message m on m.ctid = c.ctid join successor s using (queue, id)
        where m.token is not null order by c.place limit 1
      ) f;
      if merged <> '{}' then
        chosen := chosen[:i - 1];
        update message m set
          token = null, stalls = least(m.stalls, 2147483646) + 1, leased_at = null, remark = null,
          history = remember(m.history, m.token, m.holder, m.leased_at, now, 'stalled', '', m.due, m.remark)
          where m.queue = lease.queue and m.id = any (merged);
        perform merge(lease.queue, merged), let_go(lease.queue, keys);
      end if;
    end if;

    if chosen = '{}' and taken = '{}' and busy || passed <> '{}' and not had then
      perform pg_advisory_xact_lock(turn_of(lease.queue, (busy || passed)[1]));
      now := clock_timestamp();
      had := true;
      passed := '{}';
      noted := exists (select from wake w where w.queue = lease.queue and w.at <= now);
      continue;
    end if;
    if keyed = 0 and taken = '{}' and merged = '{}' and not (more and cardinality(chosen) < wanted) then -- as a rule
      return query
        update message m set
          leased = true, leased_until = now + make_interval(secs => duration), holder = lease.holder,
          token = nextval('token'), deliveries = least(m.deliveries, 2147483646) + 1,
          stalls = least(m.stalls, 2147483646) + case when m.token is null then 0 else 1 end, leased_at = now, remark = null,
          history = remember(m.history, m.token, m.holder, m.leased_at, now, 'stalled', '', m.due, m.remark)
        from unnest(chosen) as c (place)
        where m.ctid = c.place -- one after the other, as they were chosen: there is no other way to join them
        returning m.id, m.token, m.body, m.headers, date_part('epoch', m.sent_at),
                  case when (m.deliveries - 1 | m.errors | m.timeouts | m.stalls | m.releases | m.unknowns) <> 0
                  then array[m.deliveries, m.errors, m.timeouts, m.stalls, m.releases, m.unknowns] end,
                  m.key, m.reports_to, m.priority::smallint, date_part('epoch', m.due),
                  null::double precision, null::double precision, null::double precision;
      total := cardinality(chosen);
      exit;
    else
      with t as (
        update message m set
          leased = true, leased_until = now + make_interval(secs => duration), holder = lease.holder,
          token = nextval('token'), deliveries = least(m.deliveries, 2147483646) + 1,
          stalls = least(m.stalls, 2147483646) + case when m.token is null then 0 else 1 end, leased_at = now, remark = null,
          history = remember(m.history, m.token, m.holder, m.leased_at, now, 'stalled', '', m.due, m.remark)
        where m.ctid = any (chosen)
        returning m.id, m.key
      )
      select taken || coalesce(array_agg(t.id), '{}'), array_agg(t.key) into taken, keys from t;
      if key_times is not null or per_key is distinct from 1 then
        perform follow(lease.queue, keys, aside, now, per_key, key_times, key_per);
      end if;
      wanted := wanted - cardinality(chosen);
      exit when cardinality(places) < page and not more and merged = '{}'
        or clock_timestamp() > now + make_interval(secs => coalesce(patience, 4) / 4); -- the next call goes on
      page := least(greatest(wanted, 2 * (cardinality(places) - cardinality(chosen))), 5000);
      noted := exists (select from wake w where w.queue = lease.queue and w.at <= now);
    end if;
  end loop;
  if taken <> '{}' then
    return query
      select m.id, m.token, m.body, m.headers, date_part('epoch', m.sent_at),
             case when (m.deliveries - 1 | m.errors | m.timeouts | m.stalls | m.releases | m.unknowns) <> 0
             then array[m.deliveries, m.errors, m.timeouts, m.stalls, m.releases, m.unknowns] end,
             m.key, m.reports_to, m.priority::smallint, date_part('epoch', m.due),
             null::double precision, null::double precision, null::double precision
      from unnest(taken) as t (id), lateral (
        select * from message m where m.queue = lease.queue and m.id = t.id offset 0
      ) m
      order by -m.priority, m.due, m.number;
    total := cardinality(taken);
  end if;

  if total > 0 and clock_timestamp() > statement_timestamp() + make_interval(secs => patience) then
    raise lock_not_available using message = 'it took too long to lease';
  end if;
  if times is not null then
    if total > 0 then
      perform delivered(lease.queue, '', now, total, per);
      select r.again into again from room(lease.queue, '', now, times, per) r;
    end if;
  end if;
  if total > 0 or again is not null then
    leased_at := date_part('epoch', now);
    took := date_part('epoch', looked - began);
    quiet := date_part('epoch', again - clock_timestamp());
    return next;
  end if;
  if total = most and others then
    perform ring(lease.queue, 1); -- there may be more: pass the wake-up on
  end if;
end $$;
