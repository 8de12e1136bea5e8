-- Try to be the only one who decides about some keys until this transaction ends. Never waits.
-- returns   the keys that somebody else decides about at this very moment
-- locks     an advisory lock per key
create or replace function turn_of(queue text, key text) returns bigint
language sql stable set search_path from current as $$
  select hashtextextended(turn_of.key, hashtextextended('bee key ' || current_schema() || ' ' || turn_of.queue, 0));
$$;

create or replace function turn(queue text, keys text[]) returns text[]
language sql set search_path from current as $$
  with tried as materialized (
    select k.key, pg_try_advisory_xact_lock(turn_of(turn.queue, k.key)) as had
    from unnest(turn.keys) as k (key)
  )
  select array(select t.key from tried t where not t.had);
$$;
