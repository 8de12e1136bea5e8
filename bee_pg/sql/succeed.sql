-- The successors of messages that have ended become fresh messages, due when they asked to be. What was
-- reported under the id of one that awaits reports was for another, and is forgotten.
-- returns   how many there were
create or replace function succeed(queue text, ids text[]) returns bigint
language sql set search_path from current set enable_seqscan = off as $$
  with freed as (
    delete from successor s
    where s.queue = succeed.queue and s.id = any (succeed.ids)
    returning s.*
  ), fresh as (
    insert into message (queue, id, incarnation, number, priority, sent_at, due, headers, body,
                         key, awaits, reports_to)
      select f.queue, f.id, f.number, f.number, f.priority, f.sent_at, f.due, f.headers, f.body,
             f.key, f.awaits, f.reports_to
      from freed f
      returning 1
  ), forgotten as (
    delete from report r
    where r.queue = succeed.queue and r.parent = any (array(select f.id from freed f where f.awaits is not null))
  ), counted as (
    insert into created (queue, count) select succeed.queue, count(*) from fresh having count(*) > 0
  )
  select count(*) from fresh;
$$;
