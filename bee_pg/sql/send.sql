-- Store drafts, in their order; all of them or none.
-- returns   `sent`: a letter per draft (see deliver.sql); or `taken`: the ids of drafts that were to be
--           rejected if taken, and are. Then nothing was stored, and the transaction can go on.
create or replace function send(
  queue text, ids text[], rules text[], delays double precision[], priorities smallint[],
  headers bytea[], bodies bytea[], keys text[] default null, awaits integer[] default null,
  parents text[] default null, out sent text, out taken text[]
)
language plpgsql set search_path from current set lock_timeout = '3s' as $$
#variable_conflict use_column
begin
  if rules is null or not 'R' = any (rules) then
    sent := deliver(send.queue, ids, rules, delays, priorities, send.headers, bodies, keys, send.awaits, parents);
  else
    begin
      sent := deliver(send.queue, ids, rules, delays, priorities, send.headers, bodies, keys, send.awaits, parents);
      if sent like '%r%' then
        raise exception 'taken' using errcode = 'BEE01';
      end if;
    exception when sqlstate 'BEE01' then
      taken := array(
        select d.id from unnest(ids, string_to_array(sent, null)) as d (id, letter)
        where d.letter = 'r'
      );
      sent := null;
      return;
    end;
  end if;
  perform ring(send.queue, length(translate(sent, 'kb', '')));
end $$;
