-- Note that somebody is about to wait for messages of a queue, and hears on that channel. It has to
-- be committed before the last look (`upcoming`): then no message can slip between the two.
-- Those who are long gone, and did not say so, are forgotten.
create or replace function rest(queue text, channel text, duration double precision) returns void
language sql set search_path from current as $$
  insert into idle as i (queue, channel, until)
    values (rest.queue, rest.channel, clock_timestamp() + make_interval(secs => rest.duration))
    on conflict (queue, channel) do update set until = excluded.until;
  delete from idle i where i.ctid = any (array(
    select o.ctid from idle o
    where o.queue = rest.queue and o.until < statement_timestamp() - interval '1 minute'
    limit 100 for update skip locked
  ));
$$;
