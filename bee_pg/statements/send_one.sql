-- Store one plain draft, and wake somebody: what `send_plain` does with it. Not a function but a statement, sent
-- as it is: calling one costs the server 10 µs more, a twentieth of it all: docs/adr/0036, 0039.
-- %b        the queue, the id, the body, and the queue twice more
-- waiting   for one who sends the same id: who has become idle meanwhile is not seen from here, but by `ring`
-- returns   c created, and null, as no id is taken that must not be; nothing at all if it was kept
with fresh as (
  insert into {schema}.message (queue, id, incarnation, number, priority, sent_at, due, body)
  select %b::text, %b::text, number, number, 0, now, now, %b::bytea
  from (select nextval('{schema}.number') as number, clock_timestamp() as now) as draft
  on conflict (queue, id) do nothing
  returning queue
)
insert into {schema}.created (queue, count) select queue, 1 from fresh
returning 'c', case when clock_timestamp() > statement_timestamp() + interval '0.01 s'
                      or exists (select from {schema}.idle where queue = %b::text)
                    then nullif({schema}.ring(%b::text, 1)::text, '') end
