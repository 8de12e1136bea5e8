-- Hide held messages for `duration` from now.
-- progress  per receipt what is to be kept of how far it is, or null
-- remarks   per receipt what was noticed, or null
-- locks     its messages, and does not wait long for them: who calls this tries fewer then
-- returns   the numbers, from 1, of the receipts that are lost
create or replace function extend(
  queue text, ids text[], tokens bigint[], duration double precision,
  progress bytea[] default null, remarks bytea[] default null
) returns bigint[]
language plpgsql set search_path from current set lock_timeout = '500ms'
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  held   bigint[];
  places tid[];
begin
  select h.held, h.places into held, places from hold(extend.queue, ids, tokens) h;
  update message m
    set leased = true, parked = false, leased_until = clock_timestamp() + make_interval(secs => duration)
    where m.ctid = any (places);
  if extend.progress is not null or remarks is not null then
    update message m set progress = coalesce(p.said, m.progress), remark = coalesce(p.noticed, m.remark)
      from (
        select ids[h.n] as id, extend.progress[h.n] as said, remarks[h.n] as noticed from unnest(held) as h (n)
        where extend.progress[h.n] is not null or remarks[h.n] is not null
      ) p
      where m.queue = extend.queue and m.id = p.id;
  end if;
  return array(select n from generate_subscripts(ids, 1) n where n <> all (held));
end $$;
