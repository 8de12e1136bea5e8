-- A page of the messages in one state, in order. Where the last page ended, if there was one:
-- rank      the priority of its last message, negated (ready, delayed)
-- at        when that is due, or its lease runs out, or when it was archived: seconds since the epoch
-- number    its number
-- last      its id (blocked)
-- parked    whether it was passed over for its key: those come behind the other ready ones
create or replace function scan(
  queue text, state text, most integer, rank smallint default null, at double precision default null,
  number bigint default null, last text default null, parked boolean default null
) returns setof stored
language plpgsql stable set search_path from current
set enable_bitmapscan = off set jit = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  now  timestamptz := clock_timestamp();
  mark timestamptz := to_timestamp(at);
  page bigint := 0;
begin
  case state
    when 'ready' then
      if scan.parked is not true then
        return query select s.* from (
          (select m from message m
           where m.queue = scan.queue and not m.leased and not m.parked and m.due <= now
             and (at is null or (-m.priority, m.due, m.number) > (rank, mark, scan.number))
           order by -m.priority, m.due, m.number limit most)
          union all
          (select m from message m
           where m.queue = scan.queue and m.leased and m.leased_until <= now
             and (at is null or (-m.priority, m.due, m.number) > (rank, mark, scan.number))
           order by -m.priority, m.due, m.number limit most)
        ) as r (m), lateral stored(r.m, now) s
        order by -(r.m).priority, (r.m).due, (r.m).number limit most;
        get diagnostics page = row_count;
      end if;
      return query
        select s.* from (
          select m from message m
          where m.queue = scan.queue and m.key is not null and m.parked
            and (scan.parked is not true or (-m.priority, m.due, m.number) > (rank, mark, scan.number))
          order by -m.priority, m.due, m.number limit most - page
        ) as r (m), lateral stored(r.m, now) s
        order by -(r.m).priority, (r.m).due, (r.m).number;
    when 'delayed' then
      return query
        select s.* from message m, lateral stored(m, now) s
        where m.queue = scan.queue and not m.leased and not m.parked and m.due > now
          and (at is null or (-m.priority, m.due, m.number) > (rank, mark, scan.number))
        order by -m.priority, m.due, m.number limit most;
    when 'leased' then
      return query
        select s.* from message m, lateral stored(m, now) s
        where m.queue = scan.queue and m.leased and m.leased_until > now
          and (at is null or (m.leased_until, m.number) > (mark, scan.number))
        order by m.leased_until, m.number limit most;
    when 'blocked' then
      return query
        select s.* from successor b, lateral stored(b) s
        where b.queue = scan.queue and (last is null or b.id > last collate "C")
        order by b.id limit most;
    when 'archived' then
      return query
        select s.* from archive a, lateral stored(a) s
        where a.queue = scan.queue
          and (at is null or (a.archived_at, a.incarnation) < (mark, scan.number))
        order by a.archived_at desc, a.incarnation desc limit most;
  end case;
end $$;
