-- See to it that no token that is given from now on is as low as `beyond`.
-- A sequence can only be set, not raised, and others draw from it meanwhile: one who has read it, and then
-- sets it, might put it back. So it is set a million further than it has to be. Nobody draws as many
-- between the two, and those who set it take turns.
-- rights    to draw from a sequence is not to set it: that takes UPDATE on it
-- locks     an advisory lock, until the transaction ends
create or replace function outgrow(beyond bigint) returns void
language plpgsql set search_path from current as $$
begin
  if outgrow.beyond <= coalesce(pg_sequence_last_value('token'), 0) then
    return;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('bee token ' || current_schema(), 0));
  if outgrow.beyond > coalesce(pg_sequence_last_value('token'), 0) then
    perform setval('token', outgrow.beyond + 1000000);
  end if;
end $$;
