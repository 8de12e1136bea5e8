-- Copy messages into the archive, as cancelled. Who calls this deletes them in the same transaction.
create or replace function put_away(queue text, ids text[]) returns void
language sql set search_path from current set enable_seqscan = off as $$
  insert into archive (
    queue, id, incarnation, archived_at, sent_at, due, deliveries, errors, timeouts, stalls,
    releases, unknowns, priority, holder, reason, detail, headers, body,
    key, awaits, reports_to, progress, history
  )
  select m.queue, m.id, m.incarnation, clock_timestamp(), m.sent_at, m.due, m.deliveries, m.errors,
         m.timeouts, m.stalls, m.releases, m.unknowns, m.priority, m.holder, 'cancelled', '',
         m.headers, m.body, m.key, m.awaits, m.reports_to, m.progress,
         remember(m.history, m.token, m.holder, m.leased_at, clock_timestamp(), 'cancelled', '', null, m.remark)
  from message m
  where m.queue = put_away.queue and m.id = any (put_away.ids);
$$;
