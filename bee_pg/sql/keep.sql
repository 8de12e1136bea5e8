-- Keep how messages have ended, each for its time; and remove some of what was kept for long enough.
create or replace function keep(queue text, ends ending[]) returns void
language plpgsql set search_path from current set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  now timestamptz := clock_timestamp();
begin
  insert into result (queue, id, expires, reason, detail, body)
    select keep.queue, e.id, now + make_interval(secs => e.keep), coalesce(e.reason, 'ruled'),
           coalesce(e.detail, ''), coalesce(e.body, '')
    from unnest(ends) e where e.keep > 0 order by e.id collate "C"
    on conflict (queue, id) do update set
      expires = excluded.expires, reason = excluded.reason, detail = excluded.detail, body = excluded.body;
  delete from result r where r.ctid = any (array(
    select o.ctid from result o where o.expires <= now order by o.expires limit 200 for update skip locked
  ));
end $$;
