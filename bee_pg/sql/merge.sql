-- The successors of messages that wait again are merged into them, and are gone. Who calls this lets go
-- of the keys that the messages had.
create or replace function merge(queue text, ids text[]) returns void
language plpgsql set search_path from current set enable_seqscan = off as $$
#variable_conflict use_column
declare
  arrival successor;
begin
  for arrival in
    delete from successor s where s.queue = merge.queue and s.id = any (merge.ids) returning s.*
  loop
    perform revise(arrival);
  end loop;
end $$;
