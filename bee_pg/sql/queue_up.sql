-- Let those who lease from a queue do it one after the other: each finds what the others have taken committed, and
-- does not have to step over it. A courtesy: who has waited for so many seconds goes on without. One that was
-- stopped while its answer was on the way may have the turn for ever.
create or replace function queue_up(queue text, patience double precision) returns void
language plpgsql set search_path from current as $$
declare
  turn   bigint := hashtextextended('bee line ' || current_schema() || ' ' || queue_up.queue, 0);
  before text;
begin
  if not pg_try_advisory_xact_lock(turn) then
    before := current_setting('lock_timeout');
    begin
      perform set_config('lock_timeout', greatest(1, ceil(1000 * patience))::text, true); -- 0 would be for ever
      perform pg_advisory_xact_lock(turn);
      perform set_config('lock_timeout', before, true);
    exception when lock_not_available then
      null;
    end;
  end if;
end $$;
