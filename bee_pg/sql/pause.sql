-- From now on `lease` gives nothing.
create or replace function pause(queue text) returns void
language sql set search_path from current as $$
  insert into paused (queue) values (pause.queue) on conflict do nothing;
$$;
