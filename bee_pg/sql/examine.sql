-- What may ail the queues of this database, whoever is to blame. Of other users' sessions only a
-- member of pg_read_all_stats sees more than that they exist.
-- transaction, prepared, slot   what holds back the removal of dead rows for longest: seconds (of a
--                               slot: transactions), and who; null if nothing does
-- live, dead, vacuumed          rows of `message`, and seconds since they were last vacuumed
-- notifications                 how full the server's queue of notifications is, from 0 to 1
create or replace function examine(
  out transaction double precision, out session text, out prepared double precision, out transaction_name text,
  out slot text, out slot_age integer, out live bigint, out dead bigint, out vacuumed double precision,
  out notifications double precision
)
language sql stable set search_path from current as $$
  select oldest.seconds, oldest.name, waiting.seconds, waiting.gid, behind.slot_name, behind.transactions,
         rows.n_live_tup, rows.n_dead_tup,
         date_part('epoch', clock_timestamp() - greatest(rows.last_vacuum, rows.last_autovacuum)),
         pg_notification_queue_usage()
  from (select) as one
  left join lateral (
    select date_part('epoch', clock_timestamp() - a.xact_start) as seconds,
           format('pid %s, user %s, application %s, %s', a.pid, a.usename, coalesce(nullif(a.application_name, ''), '?'), a.state) as name
    from pg_stat_activity a
    where a.backend_xmin is not null and a.pid <> pg_backend_pid() and a.backend_type <> 'walsender'
      and a.backend_type <> 'autovacuum worker'
      and (a.datname = current_database() or a.datname is null)
    order by a.xact_start limit 1
  ) oldest on true
  left join lateral (
    select date_part('epoch', clock_timestamp() - p.prepared) as seconds, p.gid from pg_prepared_xacts p
    where p.database = current_database() order by p.prepared limit 1
  ) waiting on true
  left join lateral (
    select s.slot_name::text, age(s.xmin) as transactions from pg_replication_slots s
    where s.xmin is not null order by age(s.xmin) desc limit 1
  ) behind on true
  left join pg_stat_user_tables rows on rows.relid = 'message'::regclass;
$$;
