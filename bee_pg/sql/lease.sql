-- Take ready messages, in order, and hide them.
-- lows      per priority, from 9 down to -9: how far back in the line to look, as seconds since the
--           epoch; null is all of it. Where dead rows cannot be removed (somebody holds a snapshot)
--           they pile up in front, and going past them each time is what brings queues down.
-- since     the same for leases that ran out: no longer ago than this many seconds; then more of
--           them are seen to at once, because the next call looks no further back than to this one
-- channel   who leases has been waiting on it, and waits no longer
-- patience  seconds: if it took longer (somebody had locked the table), who asked has given up, and
--           would not know what he holds. Then nothing is taken
-- returns   the messages; and with each, `took`: the seconds that the call has taken so far
-- invariant a row is locked before it is looked at, and one that somebody else has locked is his
create or replace function lease(
  queue text, most integer, duration double precision, holder text,
  lows double precision[] default null, since double precision default null,
  channel text default null, patience double precision default null
) returns table (
  id text, token bigint, deliveries integer, errors integer, timeouts integer, stalls integer,
  releases integer, unknowns integer, sent_at double precision, headers bytea, body bytea,
  priority smallint, due double precision, took double precision
)
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  now    timestamptz := clock_timestamp();
  places tid[];
  merged text[];
begin
  if channel is not null then
    delete from idle i where i.queue = lease.queue and i.channel = lease.channel;
  end if;
  if exists (select from paused p where p.queue = lease.queue) then
    return;
  end if;

  -- Leases that ran out stand in the line again, at their old place. The token stays: their
  -- holders may still settle, until somebody takes the message over.
  update message m set leased = false
    where m.ctid = any (array(
      select l.ctid from message l
      where l.queue = lease.queue and l.leased and l.leased_until <= now
        and l.leased_until > coalesce(now - make_interval(secs => since), '-infinity')
      order by l.leased_until limit greatest(most, case when since is null then 100 else 1000 end)
      for update skip locked
    ));

  loop
    places := array(
      select w.ctid
      from generate_series(-9, 9) as level (rank), lateral (
        select m.ctid from message m
        where m.queue = lease.queue and not m.leased and (-m.priority) = level.rank and m.due <= now
          and m.due >= coalesce(to_timestamp(lows[level.rank + 10]), '-infinity')
        order by m.due, m.number limit most
        for update skip locked
      ) w
      limit most
    );
    exit when not exists (select from successor s where s.queue = lease.queue);
    -- One that is taken over has its successor merged first, and may then be due later.
    merged := array(
      select m.id from message m join successor s using (queue, id)
      where m.ctid = any (places) and m.token is not null
    );
    exit when merged = '{}';
    update message m set token = null, stalls = m.stalls + 1
      where m.queue = lease.queue and m.id = any (merged);
    perform merge(lease.queue, merged);
  end loop;

  if places = '{}' then
    return;
  end if;
  return query
    with taken as (
      update message m set
        leased = true, leased_until = now + make_interval(secs => duration), holder = lease.holder,
        token = nextval('token'), deliveries = m.deliveries + 1,
        stalls = m.stalls + case when m.token is null then 0 else 1 end
      where m.ctid = any (places)
      returning m.*
    )
    select t.id, t.token, t.deliveries, t.errors, t.timeouts, t.stalls, t.releases, t.unknowns,
           date_part('epoch', t.sent_at), t.headers, t.body, t.priority, date_part('epoch', t.due),
           date_part('epoch', clock_timestamp() - now)
    from taken t
    order by -t.priority, t.due, t.number;
  if clock_timestamp() > statement_timestamp() + make_interval(secs => patience) then
    raise lock_not_available using message = 'it took too long to lease';
  end if;
  if cardinality(places) = most then
    perform ring(lease.queue, 1); -- there may be more: pass the wake-up on
  end if;
end $$;
