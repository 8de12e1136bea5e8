-- The live message of an id, else the one of that id that was archived last.
create or replace function get(queue text, id text) returns setof stored
language plpgsql stable set search_path from current as $$
#variable_conflict use_column
begin
  return query
    select s.* from message m, lateral stored(m, clock_timestamp()) s
    where m.queue = get.queue and m.id = get.id;
  if not found then
    return query
      select s.* from archive a, lateral stored(a) s
      where a.queue = get.queue and a.id = get.id
      order by a.archived_at desc, a.incarnation desc limit 1;
  end if;
end $$;
