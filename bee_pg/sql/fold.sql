-- Fold what has piled up in `created`. Called now and then, by those who settle: who only sends need
-- not be allowed to delete. While the removal of dead rows is held back, looking past them takes its
-- time, so then it is done more rarely.
create or replace function fold() returns void
language plpgsql set search_path from current set jit = off as $$
#variable_conflict use_column
begin
  if pg_relation_size('created') < 64 * 1024 * 1024 or random() < 0.02 then
    with folded as (
      delete from created c
      where c.ctid = any (array(select ctid from created limit 20000 for update skip locked))
      returning c.queue, c.count
    )
    insert into created (queue, count) select f.queue, sum(f.count) from folded f group by f.queue;
  end if;
end $$;
