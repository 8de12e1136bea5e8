-- Remove what has been reported to messages if there is none left that could read it, neither a live one
-- that awaits reports nor an archived one.
create or replace function forget(queue text, ids text[]) returns void
language sql set search_path from current set enable_seqscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off as $$
  delete from report r where r.queue = forget.queue and r.parent = any (array(
    select i.id from unnest(forget.ids) as i (id)
    where not exists (select from message m where m.queue = forget.queue and m.id = i.id and m.awaits is not null)
      and not exists (select from archive a where a.queue = forget.queue and a.id = i.id)
  ));
$$;
