-- Take in messages as another store has shown them, and what was reported to them.
-- beyond    no token from now on is as low as this
-- archived_ats   null for those that are live; times are seconds since the epoch
-- counts    six counters per message, one after the other
-- histories as `told` has them
-- told_to, told_by, ...   reports: to which id, from which
-- returns   the numbers, from 1, of the messages that were not taken in
-- locks     an advisory lock per queue: of two who bring the same archived message the second sees it. And
--           those that are told, in the order of their ids, as `tell` does
-- plans     made for each call: one that was made while the archive was empty may read all of it
create or replace function adopt(
  queue text, beyond bigint, ids text[], archived_ats double precision[], sents double precision[],
  dues double precision[], priorities smallint[], counts integer[], bodies bytea[], heads bytea[],
  keys text[], awaited integer[], parents text[], holders text[], reasons text[], details bytea[],
  progresses bytea[], histories jsonb[],
  told_to text[], told_by text[], told_reasons text[], told_details bytea[], told_bodies bytea[]
) returns bigint[]
language plpgsql set search_path from current set lock_timeout = '3s'
set enable_seqscan = off set jit = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  here  bigint[];
  anew  text[]; -- taken in, and waits for reports
  rings bigint;
begin
  perform outgrow(adopt.beyond); -- 1. outgrow
  perform pg_advisory_xact_lock(hashtextextended('bee adopt ' || current_schema() || ' ' || adopt.queue, 0));
  with given as materialized (
    select g.*, nextval('number') as number from (
      select d.id, to_timestamp(d.archived_at) as archived_at, to_timestamp(d.sent) as sent_at,
             to_timestamp(d.due) as due, d.priority, d.body, d.head, d.key, d.awaits, d.parent, d.holder,
             d.reason, d.detail, d.progress, untold(d.history) as history, d.n,
             counts[6 * d.n - 5] as deliveries, counts[6 * d.n - 4] as errors, counts[6 * d.n - 3] as timeouts,
             counts[6 * d.n - 2] as stalls, counts[6 * d.n - 1] as releases, counts[6 * d.n] as unknowns
      from unnest(ids, archived_ats, sents, dues, priorities, bodies, heads, keys, awaited, parents, holders,
                  reasons, details, progresses, histories)
        with ordinality as d (id, archived_at, sent, due, priority, body, head, key, awaits, parent, holder,
                              reason, detail, progress, history, n)
      order by d.n
    ) g
  ), fresh as ( -- 2. take
    insert into message (
      queue, id, incarnation, number, sent_at, due, deliveries, errors, timeouts, stalls, releases, unknowns,
      priority, awaits, holder, reason, detail, headers, body, key, reports_to, progress, history
    )
      select adopt.queue, g.id, g.number, g.number, g.sent_at, g.due, g.deliveries, g.errors, g.timeouts,
             g.stalls, g.releases, g.unknowns, g.priority, g.awaits, g.holder, g.reason, g.detail, g.head,
             g.body, g.key, g.parent, g.progress, g.history
      from given g where g.archived_at is null order by g.id collate "C", g.n
      on conflict (queue, id) do nothing
      returning id, number, awaits
  ), kept as ( -- 3. keep
    insert into archive (
      queue, id, incarnation, archived_at, sent_at, due, deliveries, errors, timeouts, stalls, releases,
      unknowns, priority, awaits, holder, reason, detail, headers, body, key, reports_to, progress, history
    )
      select distinct on (g.id, g.sent_at, g.archived_at)
             adopt.queue, g.id, g.number, g.archived_at, g.sent_at, g.due, g.deliveries, g.errors, g.timeouts,
             g.stalls, g.releases, g.unknowns, g.priority, g.awaits, g.holder, g.reason, g.detail, g.head,
             g.body, g.key, g.parent, g.progress, g.history
      from given g
      where g.archived_at is not null and ( -- a "not exists" would be a join, and may read all of the archive
        select true from archive a
        where a.queue = adopt.queue and a.id = g.id -- not by its age: thousands may have been archived at once
          and (a.sent_at, a.archived_at) is not distinct from (g.sent_at, g.archived_at) limit 1
      ) is null
      order by g.id, g.sent_at, g.archived_at, g.n
      returning incarnation as number
  ), counted as (
    insert into created (queue, count) select adopt.queue, count(*) from fresh having count(*) > 0
  )
  select array(
           select g.n from given g where g.number <> all (array(select number from fresh union all select number from kept))
         ),
         (select array_agg(f.id) from fresh f where f.awaits is not null), (select count(*) from fresh)
    into here, anew, rings;
  if anew is not null then -- of step 2
    delete from report r where r.queue = adopt.queue and r.parent = any (anew);
  end if;
  if told_to is not null then -- 4. hear
    rings := rings + hear(adopt.queue, told_to, told_by, told_reasons, told_details, told_bodies);
  end if;
  perform ring(adopt.queue, rings); -- 5. ring
  return here;
end $$;
