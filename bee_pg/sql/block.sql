-- Let an arrival wait as the successor of a leased message; if there is one, merge the two.
-- It then remembers both their wishes.
create or replace function block(a successor) returns void
language sql set search_path from current set enable_seqscan = off as $$
  insert into successor as s select (a).*
  on conflict (queue, id) do update set
    body     = case when excluded.payload then excluded.body else s.body end,
    headers  = case when excluded.policy then excluded.headers else s.headers end,
    priority = case when excluded.policy then excluded.priority else s.priority end,
    key      = case when excluded.policy then excluded.key else s.key end,
    due      = case when moves(excluded.run_at, s.due, excluded.due) then excluded.due else s.due end,
    number   = case when moves(excluded.run_at, s.due, excluded.due) then excluded.number else s.number end,
    payload  = s.payload or excluded.payload,
    policy   = s.policy or excluded.policy,
    resets   = s.resets or excluded.resets,
    run_at   = case
      when excluded.run_at = 'never' or s.run_at = excluded.run_at then s.run_at
      when s.run_at = 'never' then excluded.run_at
      when moves(excluded.run_at, s.due, excluded.due) or 'always' in (s.run_at, excluded.run_at) then 'always'
      else s.run_at
    end;
$$;
