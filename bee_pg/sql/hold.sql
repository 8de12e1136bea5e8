-- Lock the messages whose receipts are good, in the order of their ids, so that two callers cannot wait
-- for each other in a circle.
-- returns   the numbers, from 1, of the good receipts, and where their rows are
create or replace function hold(
  queue text, ids text[], tokens bigint[], out held bigint[], out places tid[]
)
language plpgsql set search_path from current set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  -- One by one: a join might be planned the other way round, through all of the queue.
  select coalesce(array_agg(r.n), '{}'), coalesce(array_agg(m.ctid), '{}') into held, places
  from (
    select * from unnest(ids, tokens) with ordinality as u (id, token, n)
    order by u.id collate "C"
  ) r,
  lateral (
    select m.ctid from message m
    where m.queue = hold.queue and m.id = r.id and m.token = r.token
    for update
  ) m;
end $$;
