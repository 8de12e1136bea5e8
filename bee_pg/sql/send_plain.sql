-- Store plain drafts, in their order, and wake somebody: what `send` does with them, for three quarters of the
-- price: docs/adr/0032.
-- ids       in the order of their bytes, which is the one in which rows are locked: see deliver.sql
-- returns   a letter per draft: c created, k kept
create or replace function send_plain(queue text, ids text[], bodies bytea[]) returns text
language plpgsql set search_path from current set lock_timeout = '3s' set jit = off as $$
#variable_conflict use_column
declare
  now    timestamptz := clock_timestamp();
  before bigint := nextval('number') - 1;
  made   bigint;
begin
  if cardinality(ids) = 1 then
    insert into message (queue, id, incarnation, number, priority, sent_at, due, body)
      values (send_plain.queue, ids[1], before + 1, before + 1, 0, now, now, bodies[1])
      on conflict (queue, id) do nothing;
    if not found then
      return 'k';
    end if;
    insert into created (queue, count) values (send_plain.queue, 1);
    if exists (select from idle where queue = send_plain.queue) then
      perform ring(send_plain.queue, 1);
    end if;
    return 'c';
  elsif cardinality(ids) between 10 and 1000 then -- a few do not win back the savepoint, more have not that many numbers
    begin
      insert into message (queue, id, incarnation, number, priority, sent_at, due, body)
        select send_plain.queue, d.id, before + d.n, before + d.n, 0, now, now, d.body
        from unnest(ids, bodies) with ordinality as d (id, body, n);
      get diagnostics made = row_count;
      insert into created (queue, count) values (send_plain.queue, made);
      if exists (select from idle where queue = send_plain.queue) then
        perform ring(send_plain.queue, made);
      end if;
      return repeat('c', made::integer);
    exception when unique_violation then
      null; -- some are taken: it is asked which
    end;
  end if;
  return (select s.sent from send(send_plain.queue, ids, null, null, null, null, bodies) s);
end $$;
