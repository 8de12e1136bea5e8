-- End leases.
-- ways      a letter per receipt: D delete, A archive, R reschedule, F reschedule to the front
-- delays, added (six counters per receipt, one after the other), reasons, details   per receipt;
--           all null if every way is D and nothing is to be counted
-- then_of   per draft to be sent: the number, from 1, of the receipt it belongs to
-- returns   the numbers of the receipts that are lost
create or replace function settle(
  queue text, ids text[], tokens bigint[], ways text,
  delays double precision[] default null, added integer[] default null,
  reasons text[] default null, details bytea[] default null,
  then_of bigint[] default null, then_ids text[] default null, then_rules text[] default null,
  then_delays double precision[] default null, then_priorities smallint[] default null,
  then_headers bytea[] default null, then_bodies bytea[] default null
) returns bigint[]
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  now      timestamptz := clock_timestamp();
  held     bigint[];
  places   tid[];
  ended    text[];
  returned text[] := '{}';
  numbers  bigint[];
  rings    bigint := 0;
begin
  -- 1. check: the tokens, in the order of the ids
  select array_agg(h.n), array_agg(h.ctid), array_agg(h.id) into held, places, ended from (
    select r.n, m.ctid, m.id from unnest(ids, tokens) with ordinality as r (id, token, n)
    join message m on m.queue = settle.queue and m.id = r.id and m.token = r.token
    order by m.id for update of m
  ) h;

  -- 2. count, 3. dispose
  if reasons is null then
    delete from message m where m.ctid = any (places);
  else
    numbers := array(select case way when 'R' then nextval('number') end
                     from unnest(string_to_array(ways, null)) way);
    with s as materialized (
      select r.*, a.*
      from unnest(ids, string_to_array(ways, null), delays, reasons, details, numbers) with ordinality
        as r (id, way, delay, reason, detail, number, n)
      cross join lateral (
        select added[6 * r.n - 5] as deliveries, added[6 * r.n - 4] as errors,
               added[6 * r.n - 3] as timeouts, added[6 * r.n - 2] as stalls,
               added[6 * r.n - 1] as releases, added[6 * r.n] as unknowns
      ) a
      where r.n = any (held)
    ), gone as (
      delete from message m using s
      where m.queue = settle.queue and m.id = s.id and s.way in ('D', 'A')
      returning m.*, s.way, s.reason as why, s.detail as more, s.deliveries as d, s.errors as e,
                s.timeouts as t, s.stalls as st, s.releases as r, s.unknowns as u
    ), kept as (
      insert into archive (
        queue, id, incarnation, archived_at, sent_at, due, deliveries, errors, timeouts, stalls,
        releases, unknowns, priority, holder, reason, detail, headers, body
      )
      select g.queue, g.id, g.incarnation, now, g.sent_at, g.due, g.deliveries + g.d, g.errors + g.e,
             g.timeouts + g.t, g.stalls + g.st, g.releases + g.r, g.unknowns + g.u, g.priority, g.holder,
             coalesce(g.why, g.reason), case when g.why is null then g.detail else g.more end,
             g.headers, g.body
      from gone g where g.way = 'A'
    ), back as (
      update message m set
        token = null, leased = false, leased_until = null,
        due    = case s.way when 'F' then m.due else now + make_interval(secs => s.delay) end,
        number = case s.way when 'F' then m.number else s.number end,
        reason = coalesce(s.reason, m.reason),
        detail = case when s.reason is null then m.detail else s.detail end,
        deliveries = m.deliveries + s.deliveries, errors = m.errors + s.errors,
        timeouts = m.timeouts + s.timeouts, stalls = m.stalls + s.stalls,
        releases = m.releases + s.releases, unknowns = m.unknowns + s.unknowns
      from s
      where m.queue = settle.queue and m.id = s.id and s.way in ('R', 'F')
      returning m.id
    )
    select array(select g.id from gone g), array(select b.id from back b) into ended, returned;
  end if;

  -- 4. succeed
  if exists (select from successor s where s.queue = settle.queue) then
    rings := succeed(settle.queue, ended);
    perform merge(settle.queue, returned);
  end if;

  -- 5. send
  if then_ids is not null then
    select array_agg(d.id order by d.n), array_agg(replace(d.rule, 'R', 'K') order by d.n),
           array_agg(d.delay order by d.n), array_agg(d.priority order by d.n),
           array_agg(d.headers order by d.n), array_agg(d.body order by d.n)
      into then_ids, then_rules, then_delays, then_priorities, then_headers, then_bodies
      from unnest(then_of, then_ids, then_rules, then_delays, then_priorities, then_headers, then_bodies)
        with ordinality as d (receipt, id, rule, delay, priority, headers, body, n)
      where d.receipt = any (held);
    if then_ids is not null then
      perform deliver(settle.queue, then_ids, then_rules, then_delays, then_priorities, then_headers, then_bodies);
      rings := rings + cardinality(then_ids);
    end if;
  end if;

  -- 6. ring
  perform ring(settle.queue, rings + cardinality(returned));
  return array(select n from generate_subscripts(ids, 1) n where n <> all (coalesce(held, '{}')));
end $$;
