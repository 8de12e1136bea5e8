-- Hide held messages for `duration` from now.
-- returns   the numbers, from 1, of the receipts that are lost
create or replace function extend(
  queue text, ids text[], tokens bigint[], duration double precision
) returns bigint[]
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  held   bigint[];
  places tid[];
begin
  select array_agg(h.n), array_agg(h.ctid) into held, places from (
    select r.n, m.ctid from unnest(ids, tokens) with ordinality as r (id, token, n)
    join message m on m.queue = extend.queue and m.id = r.id and m.token = r.token
    order by m.id for update of m
  ) h;
  update message m
    set leased = true, leased_until = clock_timestamp() + make_interval(secs => duration)
    where m.ctid = any (places);
  return array(select n from generate_subscripts(ids, 1) n where n <> all (coalesce(held, '{}')));
end $$;
