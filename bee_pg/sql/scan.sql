-- A page of the messages in one state, in order. Where the last page ended, if there was one:
-- rank      the priority of its last message, negated (ready, delayed)
-- at        when that is due, or its lease runs out, or when it was archived: seconds since the epoch
-- number    its number
-- last      its id (blocked)
create or replace function scan(
  queue text, state text, most integer, rank smallint default null, at double precision default null,
  number bigint default null, last text default null
) returns setof stored
language plpgsql stable set search_path from current set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  now  timestamptz := clock_timestamp();
  mark timestamptz := to_timestamp(at);
begin
  case state
    when 'ready' then
      return query select (stored(r, now)).* from (
        (select m from message m
         where m.queue = scan.queue and not m.leased and m.due <= now
           and (at is null or (-m.priority, m.due, m.number) > (rank, mark, scan.number))
         order by -m.priority, m.due, m.number limit most)
        union all
        (select m from message m
         where m.queue = scan.queue and m.leased and m.leased_until <= now
           and (at is null or (-m.priority, m.due, m.number) > (rank, mark, scan.number))
         order by -m.priority, m.due, m.number limit most)
      ) as one (r) order by -(r).priority, (r).due, (r).number limit most;
    when 'delayed' then
      return query select (stored(m, now)).* from message m
        where m.queue = scan.queue and not m.leased and m.due > now
          and (at is null or (-m.priority, m.due, m.number) > (rank, mark, scan.number))
        order by -m.priority, m.due, m.number limit most;
    when 'leased' then
      return query select (stored(m, now)).* from message m
        where m.queue = scan.queue and m.leased and m.leased_until > now
          and (at is null or (m.leased_until, m.number) > (mark, scan.number))
        order by m.leased_until, m.number limit most;
    when 'blocked' then
      return query select (stored(s)).* from successor s
        where s.queue = scan.queue and (last is null or s.id > last collate "C")
        order by s.id limit most;
    when 'archived' then
      return query select (stored(a)).* from archive a
        where a.queue = scan.queue
          and (at is null or (a.archived_at, a.incarnation) < (mark, scan.number))
        order by a.archived_at desc, a.incarnation desc limit most;
  end case;
end $$;
