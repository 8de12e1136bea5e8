-- Delete or archive messages, whatever they are at; or, if `running` is false, only what waits.
-- returns   the ids that had nothing to cancel
-- locks     those that report before those that they report to, as one who settles does: else the two
--           would wait for each other when a message is cancelled together with those that it awaits
create or replace function cancel(queue text, ids text[], archived boolean, running boolean)
returns text[]
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  ended   text[]; -- live, and to be ended
  ends    ending[]; -- of those that report to somebody
  keys    text[];
  held    text[]; -- leased, and to be left alone: only a successor can be cancelled
  was_held boolean;
  blocked text[];
  rings   bigint;
begin
  select array_agg(h.id) filter (where h.token is null or running),
         array_agg(h.id) filter (where h.token is not null and not running),
         coalesce(bool_or(h.token is not null and running), false),
         array_agg(distinct h.key) filter (where h.key is not null and (h.token is null or running)),
         array_agg(row(h.id, h.reports_to, 'cancelled', '', '', 0)::ending)
           filter (where h.reports_to is not null and (h.token is null or running))
    into ended, held, was_held, keys, ends from (
      select m.id, m.token, m.key, m.reports_to from message m
      where m.queue = cancel.queue and m.id = any (ids)
      order by m.awaits is not null, m.reports_to is null, m.id for update -- see `locks`
    ) h;
  if archived then
    perform put_away(cancel.queue, ended);
  end if;
  delete from message m where m.queue = cancel.queue and m.id = any (ended);
  perform forget(cancel.queue, ended);
  rings := succeed(cancel.queue, ended);
  if keys is not null then
    perform let_go(cancel.queue, keys);
    rings := rings + cardinality(keys);
  end if;
  if ends is not null then
    rings := rings + tell(cancel.queue, ends);
  end if;
  perform ring(cancel.queue, case when was_held then 1000 else rings end); -- its holder may be among those who wait

  with gone as (
    delete from successor s where s.queue = cancel.queue and s.id = any (held) returning s.*
  ), kept as (
    insert into archive (
      queue, id, incarnation, archived_at, sent_at, due, deliveries, errors, timeouts, stalls,
      releases, unknowns, priority, holder, reason, detail, headers, body,
      key, awaits, reports_to
    )
    select g.queue, g.id, g.number, clock_timestamp(), g.sent_at, g.due, 0, 0, 0, 0, 0, 0,
           g.priority, null, 'cancelled', '', g.headers, g.body, g.key, g.awaits, g.reports_to
    from gone g where archived
  )
  select array_agg(g.id) into blocked from gone g;
  return array(
    select i.id from unnest(ids) as i (id)
    where i.id <> all (coalesce(ended, '{}') || coalesce(blocked, '{}'))
  );
end $$;
