-- Store one plain draft, and wake somebody: what `send` does with it, for two thirds of the price: docs/adr/0029.
-- returns   c created, or k kept
create or replace function send_one(queue text, id text, body bytea) returns text
language plpgsql set search_path from current set lock_timeout = '3s' as $$
#variable_conflict use_column
declare
  fresh bigint := nextval('number');
  now   timestamptz := clock_timestamp();
begin
  insert into message (queue, id, incarnation, number, priority, sent_at, due, body)
    values (send_one.queue, send_one.id, fresh, fresh, 0, now, now, send_one.body)
    on conflict (queue, id) do nothing;
  if not found then
    return 'k';
  end if;
  insert into created (queue, count) values (send_one.queue, 1);
  if exists (select from idle where queue = send_one.queue) then
    perform ring(send_one.queue, 1);
  end if;
  return 'c';
end $$;
