-- Note that somebody waits no longer for messages of a queue; wake another, in case he was rung.
create or replace function rise(queue text, channel text) returns void
language sql set search_path from current as $$
  delete from idle i where i.queue = rise.queue and i.channel = rise.channel;
  select ring(rise.queue, 1);
$$;
