-- The successors of messages that have ended become fresh messages, due when they asked to be.
-- returns   how many there were
create or replace function succeed(queue text, ids text[]) returns bigint
language sql set search_path from current set enable_seqscan = off as $$
  with freed as (
    delete from successor s
    where s.queue = succeed.queue and s.id = any (succeed.ids)
    returning s.*
  ), created as (
    insert into message (queue, id, incarnation, number, priority, sent_at, due, headers, body)
      select f.queue, f.id, f.number, f.number, f.priority, f.sent_at, f.due, f.headers, f.body
      from freed f
      returning 1
  )
  select count(*) from created;
$$;
