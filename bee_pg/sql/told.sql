-- A history as `stored` has it: a list per episode, times in seconds, the remark in hexadecimal digits.
create or replace function told(history episode[]) returns jsonb
language sql stable as $$
  select jsonb_agg(jsonb_build_array(
    e.token, e.holder, extract(epoch from e.leased_at), extract(epoch from e.ended_at),
    e.reason, e.summary, extract(epoch from e.due), encode(e.remark, 'hex')
  ) order by n)
  from unnest(history) with ordinality as e (token, holder, leased_at, ended_at, reason, summary, due, remark, n)
$$;
