-- The live message of an id, else the one of that id that was archived last.
create or replace function get(queue text, id text) returns setof stored
language plpgsql stable set search_path from current as $$
#variable_conflict use_column
begin
  return query
    select (stored(m, clock_timestamp())).* from message m
    where m.queue = get.queue and m.id = get.id;
  if not found then
    return query
      select (stored(a)).* from archive a
      where a.queue = get.queue and a.id = get.id
      order by a.archived_at desc, a.incarnation desc limit 1;
  end if;
end $$;
