-- A message as an operator sees it. `number` is its place in the line.
create or replace function stored(m message, now timestamptz) returns stored
language sql stable as $$
  select m.id, m.incarnation,
    case when m.leased and m.leased_until > now then 'leased'
         when m.leased or m.due <= now then 'ready' else 'delayed' end,
    m.body, m.headers, m.priority::smallint, m.deliveries, m.errors, m.timeouts, m.stalls, m.releases, m.unknowns,
    date_part('epoch', m.sent_at), date_part('epoch', m.due), m.holder,
    case when m.leased and m.leased_until > now then date_part('epoch', m.leased_until) end,
    m.reason, m.detail, null::double precision, m.key, m.awaits, m.reports_to, m.progress,
    date_part('epoch', m.leased_at), m.remark, case when m.history is not null then told(m.history) end, m.parked, m.number, m.token
$$;

create or replace function stored(a archive) returns stored
language sql stable as $$
  select a.id, a.incarnation, 'archived', a.body, a.headers, a.priority, a.deliveries, a.errors,
    a.timeouts, a.stalls, a.releases, a.unknowns, date_part('epoch', a.sent_at),
    date_part('epoch', a.due), a.holder, null::double precision, a.reason, a.detail,
    date_part('epoch', a.archived_at), a.key, a.awaits, a.reports_to, a.progress,
    null::double precision, null::bytea, case when a.history is not null then told(a.history) end, false, a.incarnation, null::bigint
$$;

create or replace function stored(s successor) returns stored
language sql stable as $$
  select s.id, s.number, 'blocked', s.body, s.headers, s.priority::smallint, 0, 0, 0, 0, 0, 0,
    date_part('epoch', s.sent_at), date_part('epoch', s.due), null::text, null::double precision,
    null::text, null::bytea, null::double precision, s.key, s.awaits, s.reports_to, null::bytea,
    null::double precision, null::bytea, null::jsonb, false, s.number, null::bigint
$$;
