-- Note that keys were let go of, or a place among those who wait for them: `lease` is to look at them.
-- Nothing is locked, and nobody is waited for: what is noted here is seen when it is committed, and by
-- then what was done is seen, too. Keys may be null, one or all of them.
create or replace function let_go(queue text, keys text[]) returns void
language sql set search_path from current as $$
  insert into wake (queue, key, at, rated)
    select distinct let_go.queue, k.key, timestamptz 'epoch', false
    from unnest(let_go.keys) as k (key) where k.key is not null;
$$;
