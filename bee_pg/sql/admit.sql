-- Decide which of the messages that a lease has found and locked may be delivered, and park the others.
-- places    where they are: the first of the line
-- per_key, key_times, key_per   those of `lease`
-- admitted  where those are that may go, in order
-- left      keys about which somebody else decides at this very moment: their messages are left alone
-- more      whether some are parked that come before others found here: they have to be looked at
-- held_back keys of which some were passed over because of the rate: somebody has to be told when to look
-- had       whether we decide about any key at all
-- locks     an advisory lock per key (turn.sql), never more than 250: a server has room for some thousands
create or replace function admit(
  queue text, places tid[], now timestamptz, per_key integer, key_times bigint, key_per double precision,
  out admitted tid[], out "left" text[], out held_back text[], out more boolean, out had boolean
)
language plpgsql set search_path from current set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set jit = off set plan_cache_mode = auto as $$
#variable_conflict use_column
declare
  keys   text[];
  passed tid[];
  firsts tid[]; -- of those that wait for each key, as many as there is room for, wherever they are
  before text[];
begin
  keys := array(select distinct m.key from message m where m.ctid = any (places) and m.key is not null);
  "left" := keys[251:] || turn(admit.queue, keys[:250]);
  keys := array(select k.key from unnest(keys) as k (key) where k.key <> all ("left"));
  had := keys <> '{}';

  -- From here on each statement sees what others have done with these keys, and nobody does any more.
  if per_key is not null then
    select array_agg(w.place), array_agg(distinct w.key) filter (where w.parked) into firsts, before
      from (
        select distinct on (m.key) m.key, -m.priority as rank, m.due, m.number from message m
        where m.ctid = any (places) and m.key = any (keys)
        order by m.key, -m.priority desc, m.due desc, m.number desc
      ) k
      cross join lateral (
        select count(*) as held from message m
        where m.queue = admit.queue and m.key = k.key and (m.token is null)::integer = 0
      ) h
      cross join lateral (
        select w.* from (values (true), (false)) as p (parked), lateral (
          select m.ctid as place, m.key, m.parked, -m.priority as rank, m.due, m.number from message m
          where m.queue = admit.queue and m.key = k.key and (m.token is null)::integer = 1
            and m.parked = p.parked and m.due <= now
            and (-m.priority, m.due, m.number) <= (k.rank, k.due, k.number)
          order by -m.priority, m.due, m.number limit greatest(per_key - h.held, 0)
        ) w
        order by w.rank, w.due, w.number limit greatest(per_key - h.held, 0)
      ) w;
    perform let_go(admit.queue, before);
  end if;
  more := before is not null;
  with k as materialized (
    select k.key, r.room from unnest(keys) as k (key)
    left join lateral (
      select r.room from room(admit.queue, k.key, now, key_times, key_per) r where key_times is not null
    ) r on true
  ), fitting as materialized ( -- one that is taken over holds its key already
    select m.ctid as place, m.key, -m.priority as rank, m.due, m.number, k.room,
           m.token is not null or per_key is null or m.ctid = any (coalesce(firsts, '{}')) as fits
    from message m left join k using (key)
    where m.ctid = any (places) and (m.key is null or m.key <> all ("left"))
  ), decided as (
    select f.*, f.key is null or f.fits and (
      f.room is null or f.room >= row_number() over (partition by f.key, f.fits order by f.rank, f.due, f.number)
    ) as goes
    from fitting f
  )
  select coalesce(array_agg(d.place order by d.rank, d.due, d.number) filter (where d.goes), '{}'),
         array_agg(d.place) filter (where not d.goes),
         array_agg(distinct d.key) filter (where d.fits and not d.goes)
    into admitted, passed, held_back from decided d;
  update message m set parked = true where m.ctid = any (passed);
end $$;
