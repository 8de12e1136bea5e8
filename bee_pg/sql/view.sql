-- For people: every message with its state in words, and what it carries as JSON.
create or replace function readable(data bytea) returns json
language plpgsql immutable as $$
begin
  return convert_from(data, 'UTF8')::json;
exception when others then -- not JSON, not even text: shown with escapes, rather than not at all
  return to_json(encode(data, 'escape'));
end $$;

create or replace view job as
  select m.queue, m.id,
    case when m.leased and m.leased_until > statement_timestamp() then 'leased'
         when m.leased or m.due <= statement_timestamp() then 'ready' else 'delayed' end as state,
    m.priority, m.sent_at, m.due, m.holder, m.leased_until, m.deliveries, m.errors, m.timeouts, m.stalls,
    m.releases, m.unknowns, m.reason, encode(m.detail, 'escape') as detail, null::timestamptz as archived_at,
    readable(m.headers) as headers, readable(m.body) as body, m.key, encode(m.progress, 'escape') as progress,
    m.leased_at, encode(m.remark, 'escape') as remark, m.history
  from message m
  union all
  select s.queue, s.id, 'blocked', s.priority, s.sent_at, s.due, null, null, 0, 0, 0, 0, 0, 0, null, null,
    null, readable(s.headers), readable(s.body), s.key, null, null, null, null
  from successor s
  union all
  select a.queue, a.id, 'archived', a.priority, a.sent_at, a.due, a.holder, null, a.deliveries, a.errors,
    a.timeouts, a.stalls, a.releases, a.unknowns, a.reason, encode(a.detail, 'escape'), a.archived_at,
    readable(a.headers), readable(a.body), a.key, encode(a.progress, 'escape'), null, null, a.history
  from archive a;
