-- End leases. Each step is taken for all of them before the next one is, so a draft must not have the
-- id of a message that is settled with it: who calls this sees to that.
-- ways      a letter per receipt: D delete, A archive, R reschedule, F reschedule to the front
-- delays, added (six counters per receipt, one after the other), reasons, details, results, keeps,
-- summaries per receipt. If every way is D, added may be null, as what is deleted need not be counted: then
--           nothing else is given but, if there is one, the one reason and detail of them all
-- then_of   per draft to be sent: the number, from 1, of the receipt it belongs to
-- returns   the numbers of the receipts that are lost
-- locks     its messages. It does not wait long for them, as who calls this tries fewer then; but for longer than
--           PostgreSQL takes to notice that two wait for each other
-- plans     are made once for a session, as in `lease`; but not for what is sent
create or replace function settle(
  queue text, ids text[], tokens bigint[], ways text,
  delays double precision[] default null, added integer[] default null,
  reasons text[] default null, details bytea[] default null,
  then_of bigint[] default null, then_ids text[] default null, then_rules text[] default null,
  then_delays double precision[] default null, then_priorities smallint[] default null,
  then_headers bytea[] default null, then_bodies bytea[] default null,
  then_keys text[] default null, then_awaits integer[] default null, then_parents text[] default null,
  results bytea[] default null, keeps double precision[] default null, summaries text[] default null
) returns bigint[]
language plpgsql set search_path from current set lock_timeout = '1500ms'
set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  now      timestamptz := clock_timestamp();
  held     bigint[];
  places   tid[];
  ended    text[];
  returned text[] := '{}';
  keys     text[];   -- of all of them
  ends     ending[]; -- of those that report to somebody, or are to be kept
  rings    bigint := 0;
  tied     bigint;   -- have a key, or report to somebody
  reports  boolean;  -- somebody has been told something
  heirs    boolean;  -- some messages have successors
begin
  -- 1. check, as `hold` does
  select coalesce(array_agg(r.n), '{}'), coalesce(array_agg(m.ctid), '{}'), count(m.key) + count(m.reports_to)
    into held, places, tied
    from (
      select * from unnest(ids, tokens) with ordinality as u (id, token, n)
      order by u.id collate "C"
    ) r,
    lateral (
      select m.ctid, m.key, m.reports_to from message m
      where m.queue = settle.queue and m.id = r.id and m.token = r.token
      for update
    ) m;
  select exists (select from report r where r.queue = settle.queue),
         exists (select from successor s where s.queue = settle.queue)
    into reports, heirs;

  -- 2. count, 3. dispose
  if added is null and tied = 0 and not reports and not heirs then -- as a rule: nobody has to know
    delete from message m where m.ctid = any (places);
  elsif added is null then
    with gone as (
      delete from message m where m.ctid = any (places)
      returning m.id, m.key, m.reports_to, m.reason, m.detail
    )
    select array_agg(g.id), array_agg(g.key) filter (where g.key is not null),
           array_agg(row(g.id, g.reports_to, coalesce(reasons[1], g.reason),
                         case when reasons[1] is null then g.detail else details[1] end, '', 0)::ending)
             filter (where g.reports_to is not null)
      into ended, keys, ends from gone g;
  else
    with s as materialized (
      select h.place, substr(ways, h.n::integer, 1) as way, delays[h.n] as delay,
             case substr(ways, h.n::integer, 1) when 'R' then nextval('number') end as number,
             reasons[h.n] as why, details[h.n] as more, results[h.n] as result, keeps[h.n] as keep,
             coalesce(summaries[h.n], '') as summary,
             added[6 * h.n - 5] as deliveries, added[6 * h.n - 4] as errors,
             added[6 * h.n - 3] as timeouts, added[6 * h.n - 2] as stalls,
             added[6 * h.n - 1] as releases, added[6 * h.n] as unknowns
      from (select * from unnest(held, places) as u (n, place) order by u.n) h
    ), kept as (
      insert into archive (
        queue, id, incarnation, archived_at, sent_at, due, deliveries, errors, timeouts, stalls,
        releases, unknowns, priority, holder, reason, detail, headers, body,
        key, awaits, reports_to, progress, history
      )
      select m.queue, m.id, m.incarnation, now, m.sent_at, m.due, m.deliveries + s.deliveries,
             m.errors + s.errors, m.timeouts + s.timeouts, m.stalls + s.stalls,
             m.releases + s.releases, m.unknowns + s.unknowns, m.priority, m.holder,
             coalesce(s.why, m.reason), case when s.why is null then m.detail else s.more end,
             m.headers, m.body, m.key, m.awaits, m.reports_to, m.progress,
             remember(m.history, m.token, m.holder, m.leased_at, now, coalesce(s.why, 'ruled'), s.summary,
                      null, m.remark)
      from s join message m on m.ctid = s.place
      where s.way = 'A'
    ), gone as (
      delete from message m using s where m.ctid = s.place and s.way in ('D', 'A')
      returning m.id, m.key, m.reports_to, coalesce(s.why, m.reason) as reason,
                case when s.why is null then m.detail else s.more end as detail, s.result, s.keep
    ), back as (
      update message m set
        deliveries = m.deliveries + s.deliveries, errors = m.errors + s.errors,
        timeouts = m.timeouts + s.timeouts, stalls = m.stalls + s.stalls,
        releases = m.releases + s.releases, unknowns = m.unknowns + s.unknowns,
        reason = coalesce(s.why, m.reason),
        detail = case when s.why is null then m.detail else s.more end,
        token  = null, leased = false, leased_until = null, parked = false, leased_at = null, remark = null,
        history = remember(
          m.history, m.token, m.holder, m.leased_at, now, coalesce(s.why, 'ruled'), s.summary,
          case s.way when 'R' then now + make_interval(secs => s.delay) else m.due end, m.remark
        ),
        due    = case s.way when 'R' then now + make_interval(secs => s.delay) else m.due end,
        number = coalesce(s.number, m.number)
      from s where m.ctid = s.place and s.way in ('R', 'F')
      returning m.id, m.key
    )
    select array(select g.id from gone g), array(select b.id from back b),
           (select array_agg(k.key) from (select g.key from gone g union all select b.key from back b) k
            where k.key is not null),
           (select array_agg(row(g.id, g.reports_to, g.reason, g.detail, g.result, g.keep)::ending)
            from gone g where g.reports_to is not null or g.keep > 0)
      into ended, returned, keys, ends;
  end if;
  if reports then
    perform forget(settle.queue, ended);
  end if;

  -- 4. succeed; let go of keys, keep results, report
  if heirs then
    rings := succeed(settle.queue, ended);
    perform merge(settle.queue, returned);
  end if;
  if keys is not null then
    perform let_go(settle.queue, keys);
    rings := rings + cardinality(keys);
  end if;
  if ends is not null then
    if keeps is not null then
      perform keep(settle.queue, ends);
    end if;
    rings := rings + tell(settle.queue, ends);
  end if;

  -- 5. send: what belongs to good receipts; a Reject counts as a Keep
  if then_ids is not null then
    select array_agg(d.id order by d.n), array_agg(replace(d.rule, 'R', 'K') order by d.n),
           array_agg(d.delay order by d.n), array_agg(d.priority order by d.n),
           array_agg(d.headers order by d.n), array_agg(d.body order by d.n),
           case when then_keys is not null then array_agg(d.key order by d.n) end,
           case when then_awaits is not null then array_agg(d.awaits order by d.n) end,
           case when then_parents is not null then array_agg(d.parent order by d.n) end
      into then_ids, then_rules, then_delays, then_priorities, then_headers, then_bodies,
           then_keys, then_awaits, then_parents
      from unnest(then_of, then_ids, then_rules, then_delays, then_priorities, then_headers, then_bodies,
                  then_keys, then_awaits, then_parents)
        with ordinality as d (receipt, id, rule, delay, priority, headers, body, key, awaits, parent, n)
      where d.receipt = any (held);
    if then_ids is not null then
      perform deliver(settle.queue, then_ids, then_rules, then_delays, then_priorities, then_headers, then_bodies,
                      then_keys, then_awaits, then_parents);
      rings := rings + cardinality(then_ids);
    end if;
  end if;

  -- 6. ring
  rings := rings + cardinality(returned);
  if rings > 0 then
    perform ring(settle.queue, rings);
  end if;
  if random() < 0.02 then
    perform fold();
  end if;
  if cardinality(held) = cardinality(ids) then
    return '{}';
  end if;
  return array(select n from generate_subscripts(ids, 1) n where n <> all (held));
end $$;
