-- Hide held messages for `duration` from now.
-- returns   the numbers, from 1, of the receipts that are lost
create or replace function extend(
  queue text, ids text[], tokens bigint[], duration double precision
) returns bigint[]
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  held   bigint[];
  places tid[];
begin
  select h.held, h.places into held, places from hold(extend.queue, ids, tokens) h;
  update message m
    set leased = true, leased_until = clock_timestamp() + make_interval(secs => duration)
    where m.ctid = any (places);
  return array(select n from generate_subscripts(ids, 1) n where n <> all (held));
end $$;
