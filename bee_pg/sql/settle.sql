-- End leases. Each step is taken for all of them before the next one is, so a draft must not have the
-- id of a message that is settled with it: who calls this sees to that.
-- ways      a letter per receipt: D delete, A archive, R reschedule, F reschedule to the front
-- delays, added (six counters per receipt, one after the other), reasons, details   per receipt;
--           all null if every way is D: what is deleted need not be counted
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
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  now      timestamptz := clock_timestamp();
  held     bigint[];
  places   tid[];
  ended    text[];
  returned text[] := '{}';
  rings    bigint := 0;
begin
  -- 1. check
  select h.held, h.places into held, places from hold(settle.queue, ids, tokens) h;

  -- 2. count, 3. dispose
  if reasons is null then
    with gone as (delete from message m where m.ctid = any (places) returning m.id)
    select array_agg(g.id) into ended from gone g;
  else
    with s as materialized (
      select h.place, substr(ways, h.n::integer, 1) as way, delays[h.n] as delay,
             case substr(ways, h.n::integer, 1) when 'R' then nextval('number') end as number,
             reasons[h.n] as why, details[h.n] as more,
             added[6 * h.n - 5] as deliveries, added[6 * h.n - 4] as errors,
             added[6 * h.n - 3] as timeouts, added[6 * h.n - 2] as stalls,
             added[6 * h.n - 1] as releases, added[6 * h.n] as unknowns
      from (select * from unnest(held, places) as u (n, place) order by u.n) h
    ), kept as (
      insert into archive (
        queue, id, incarnation, archived_at, sent_at, due, deliveries, errors, timeouts, stalls,
        releases, unknowns, priority, holder, reason, detail, headers, body
      )
      select m.queue, m.id, m.incarnation, now, m.sent_at, m.due, m.deliveries + s.deliveries,
             m.errors + s.errors, m.timeouts + s.timeouts, m.stalls + s.stalls,
             m.releases + s.releases, m.unknowns + s.unknowns, m.priority, m.holder,
             coalesce(s.why, m.reason), case when s.why is null then m.detail else s.more end,
             m.headers, m.body
      from s join message m on m.ctid = s.place
      where s.way = 'A'
    ), gone as (
      delete from message m using s where m.ctid = s.place and s.way in ('D', 'A') returning m.id
    ), back as (
      update message m set
        deliveries = m.deliveries + s.deliveries, errors = m.errors + s.errors,
        timeouts = m.timeouts + s.timeouts, stalls = m.stalls + s.stalls,
        releases = m.releases + s.releases, unknowns = m.unknowns + s.unknowns,
        reason = coalesce(s.why, m.reason),
        detail = case when s.why is null then m.detail else s.more end,
        token  = null, leased = false, leased_until = null,
        due    = case s.way when 'R' then now + make_interval(secs => s.delay) else m.due end,
        number = coalesce(s.number, m.number)
      from s where m.ctid = s.place and s.way in ('R', 'F')
      returning m.id
    )
    select array(select g.id from gone g), array(select b.id from back b) into ended, returned;
  end if;

  -- 4. succeed
  if exists (select from successor s where s.queue = settle.queue) then
    rings := succeed(settle.queue, ended);
    perform merge(settle.queue, returned);
  end if;

  -- 5. send: what belongs to good receipts; a Reject counts as a Keep
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
  return array(select n from generate_subscripts(ids, 1) n where n <> all (held));
end $$;
