-- How messages have ended, as far as it was kept and its time is not over.
create or replace function results(queue text, ids text[])
returns table (id text, reason text, detail bytea, body bytea)
language sql stable set search_path from current set enable_seqscan = off set jit = off as $$
  select r.id, r.reason, r.detail, r.body from result r
  where r.queue = results.queue and r.id = any (results.ids) and r.expires > clock_timestamp();
$$;
