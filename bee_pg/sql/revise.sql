-- Change a message that waits, field by field, as an arrival says. Who calls this lets go of its old key.
create or replace function revise(a successor) returns void
language sql set search_path from current set enable_seqscan = off as $$
  update message m set
    body       = case when a.payload then a.body else m.body end,
    headers    = case when a.policy then a.headers else m.headers end,
    priority   = case when a.policy then a.priority else m.priority end,
    key        = case when a.policy then a.key else m.key end,
    parked     = false,
    deliveries = case when a.resets then 0 else m.deliveries end,
    errors     = case when a.resets then 0 else m.errors end,
    timeouts   = case when a.resets then 0 else m.timeouts end,
    stalls     = case when a.resets then 0 else m.stalls end,
    releases   = case when a.resets then 0 else m.releases end,
    unknowns   = case when a.resets then 0 else m.unknowns end,
    due        = case when moves(a.run_at, m.due, a.due) then a.due else m.due end,
    number     = case when moves(a.run_at, m.due, a.due) then a.number else m.number end
  where m.queue = a.queue and m.id = a.id;
$$;
