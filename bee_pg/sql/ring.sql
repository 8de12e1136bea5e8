-- Wake up to `times` of those who wait for messages of a queue, when this transaction commits.
-- Nobody waits while there is work, so a busy queue sends no notification at all: NOTIFY makes
-- commits queue up for one lock, and users' transactions must not pay for that.
create or replace function ring(queue text, times bigint) returns void
language plpgsql set search_path from current as $$
#variable_conflict use_column
begin
  if ring.times > 0 then
    perform pg_notify(i.channel, ring.queue)
    from (
      select channel from idle
      where queue = ring.queue and until > clock_timestamp()
      order by random() limit ring.times
    ) i;
  end if;
end $$;
