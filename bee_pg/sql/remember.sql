-- A history, and the lease that ends now; the last ten are kept (HISTORY). What is not leased (no token)
-- has nothing to add. It has no settings of its own, so that it becomes a part of the statement that uses it:
-- then what is leased for the first time does not pay for it.
-- due       when the message is to be ready again; null if that was the end of it
create or replace function remember(
  history episode[], token bigint, holder text, leased_at timestamptz, ended_at timestamptz,
  reason text, summary text, due timestamptz, remark bytea
) returns episode[]
language sql immutable as $$
  select case when token is null then history else (
    history || row(token, holder, leased_at, ended_at, reason, summary, due, remark)::episode
  )[greatest(cardinality(history) - 8, 1):] end
$$;
