-- Store one plain draft, and wake somebody: what `send_plain` does with it. Not a function but a statement, sent
-- as it is: calling one costs the server 10 µs more, a twentieth of it all: docs/adr/0036.
-- %b        the queue, the id and the body
-- waiting   for one who sends the same id: who has become idle meanwhile is not seen from here, but by `ring`
-- returns   c created, or k kept; and null, as no id is taken that must not be
with draft as (
  select %b::text as queue, %b::text as id, %b::bytea as body,
         nextval('{schema}.number') as number, clock_timestamp() as now
), fresh as (
  insert into {schema}.message (queue, id, incarnation, number, priority, sent_at, due, body)
  select queue, id, number, number, 0, now, now, body from draft
  on conflict (queue, id) do nothing
  returning queue, sent_at
), counted as (
  insert into {schema}.created (queue, count) select queue, 1 from fresh
)
select case when exists (select from fresh) then 'c' else 'k' end,
       (select nullif({schema}.ring(queue, 1)::text, '') from fresh
        where clock_timestamp() > sent_at + interval '0.01 s'
           or exists (select from {schema}.idle i where i.queue = fresh.queue))
