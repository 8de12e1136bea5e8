-- Remove what has been reported to messages if there is none left that could read it, neither a live one
-- that awaits reports nor an archived one. Each is looked up by its id: a "not exists" would be a join, which
-- reads all of the queue where the statistics know nothing of it yet.
create or replace function forget(queue text, ids text[]) returns void
language sql set search_path from current set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off as $$
  delete from report r where r.queue = forget.queue and r.parent = any (array(
    select i.id from unnest(forget.ids) as i (id)
    where (select true from message m
           where m.queue = forget.queue and m.id = i.id and m.awaits is not null limit 1) is null
      and (select true from archive a where a.queue = forget.queue and a.id = i.id limit 1) is null
  ));
$$;
