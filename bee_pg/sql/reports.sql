-- What has been reported to a message: up to `most` reports, by id, behind `last`.
create or replace function reports(queue text, id text, last text, most integer)
returns table (id text, reason text, detail bytea, body bytea)
language sql stable set search_path from current set enable_seqscan = off set jit = off as $$
  select r.id, r.reason, r.detail, r.body from report r
  where r.queue = reports.queue and r.parent = reports.id and r.id > reports.last collate "C"
  order by r.id limit reports.most;
$$;
