-- Note that somebody works on a queue, for `duration` seconds from now; 0: no longer. Those who have been
-- silent for too long are forgotten.
-- about     what it says of itself
-- locks     its own row; of the others, none that somebody else has locked
create or replace function announce(queue text, holder text, about bytea, duration double precision)
returns void
language sql set search_path from current as $$
  delete from worker w where w.queue = announce.queue and w.name = announce.holder and announce.duration <= 0;
  insert into worker as w (queue, name, since, until, about)
    select announce.queue, announce.holder, n.now, n.now + make_interval(secs => announce.duration), announce.about
    from (select clock_timestamp() as now) n where announce.duration > 0
    on conflict (queue, name) do update set
      since = case when w.until > excluded.since then w.since else excluded.since end,
      until = excluded.until, about = excluded.about;
  delete from worker w where w.ctid = any (array(
    select o.ctid from worker o where o.queue = announce.queue and o.until <= statement_timestamp()
    limit 100 for update skip locked
  ));
$$;
