-- Keep the tally: called by triggers, once for each statement that changes the archive.
-- invariant   the sum of `count` per queue and reason is the number of rows of the archive
create or replace function tally() returns trigger
language plpgsql set search_path from current as $$
begin
  if tg_op = 'TRUNCATE' then
    truncate tally;
    return null;
  end if;
  insert into tally (queue, reason, count)
    select c.queue, coalesce(c.reason, 'ruled'), case tg_op when 'INSERT' then 1 else -1 end * count(*)
    from changed c
    group by c.queue, coalesce(c.reason, 'ruled');
  if random() < 0.01 then -- fold what has piled up
    with folded as (
      delete from tally t
      where t.ctid = any (array(select ctid from tally limit 1000 for update skip locked))
      returning t.queue, t.reason, t.count
    )
    insert into tally (queue, reason, count)
      select f.queue, f.reason, sum(f.count) from folded f group by 1, 2 having sum(f.count) <> 0;
  end if;
  return null;
end $$;

create or replace trigger tally_added after insert on archive
  referencing new table as changed for each statement execute function tally();
create or replace trigger tally_removed after delete on archive
  referencing old table as changed for each statement execute function tally();
create or replace trigger tally_emptied after truncate on archive
  for each statement execute function tally();
