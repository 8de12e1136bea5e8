-- Store drafts, in their order. What `send` does, and the fifth step of `settle`.
-- rules     per draft: K keep, R reject, or the four letters of an update: whether the payload is
--           replaced (1, 0), the time (a, n, l, e), the policy (1, 0), the counters reset (1, 0)
--           All arrays but ids and bodies may be null: K, 0, 0 and none for every draft.
-- awaits    per draft how many reports make it due, or null
-- parents   per draft the id of the message that it reports to, or null
-- returns   a letter per draft: c created, k kept, u updated, b blocked; r if it was to be rejected,
--           and then the caller has to undo it all
-- locks     rows in the order of their ids, so that two who send the same cannot wait for each other
create or replace function deliver(
  queue text, ids text[], rules text[], delays double precision[], priorities smallint[],
  headers bytea[], bodies bytea[], keys text[], awaits integer[], parents text[]
) returns text
language plpgsql set search_path from current
set enable_seqscan = off set jit = off set plan_cache_mode = auto as $$
#variable_conflict use_column
declare
  now     timestamptz := clock_timestamp();
  -- A thousand of them from each that is taken from the sequence: that is its step.
  numbers bigint[] := array(
    select t.first + n
    from (select nextval('number') as first, s as start from generate_series(1, cardinality(ids), 1000) s) t,
         generate_series(0, least(999, cardinality(ids) - t.start)) n
    order by t.start, n
  );
  made    bigint;
  asks    boolean := cardinality(ids) < 10; -- a few do not win back the savepoint
  letters text[];
  arrival successor;
  held    boolean;
  old_key text;
  freed   text[]; -- keys of messages that were changed
  i       integer;
  -- Updates lock what is there. If all that is new were there first, for others to wait for, two
  -- could wait for each other. So then each is looked at in its turn, new or not.
  in_turn boolean := cardinality(ids) > 1
    and exists (select from unnest(rules) as u (rule) where length(u.rule) = 4);
begin
  if num_nonnulls(rules, delays, priorities, deliver.headers, keys, deliver.awaits, parents) = 0 then
    -- Most are plain, and need not pay for what others have. Nor, if they are many, for the question
    -- whether an id is taken, a fifth of it all: it is asked when one is. See docs/adr/0026.
    if not asks then
      begin
        insert into message (queue, id, incarnation, number, priority, sent_at, due, body)
          select deliver.queue, d.id, d.number, d.number, 0, now, now, d.body
          from unnest(ids, numbers, bodies) as d (id, number, body)
          order by d.id collate "C", d.number;
        get diagnostics made = row_count;
      exception when unique_violation then
        asks := true;
      end;
    end if;
    if asks then
      insert into message (queue, id, incarnation, number, priority, sent_at, due, body)
        select deliver.queue, d.id, d.number, d.number, 0, now, now, d.body
        from unnest(ids, numbers, bodies) as d (id, number, body)
        order by d.id collate "C", d.number
        on conflict (queue, id) do nothing;
      get diagnostics made = row_count;
    end if;
  else
    insert into message (queue, id, incarnation, number, priority, sent_at, due, headers, body,
                         key, awaits, reports_to)
      select deliver.queue, d.id, d.number, d.number, coalesce(d.priority, 0), now,
             now + make_interval(secs => coalesce(d.delay, 0)), d.headers, d.body,
             d.key, d.awaits, d.parent
      from unnest(ids, numbers, priorities, delays, deliver.headers, bodies, keys, deliver.awaits, parents)
        as d (id, number, priority, delay, headers, body, key, awaits, parent)
      where not in_turn
      order by d.id collate "C", d.number
      on conflict (queue, id) do nothing;
    get diagnostics made = row_count;
  end if;
  if made = cardinality(ids) and deliver.awaits is null and parents is null then
    insert into created (queue, count) values (deliver.queue, made);
    return repeat('c', made::integer);
  end if;

  -- What was not created is looked at one by one.
  letters := array(
    select case when m.id is null then '' else 'c' end
    from unnest(ids, numbers) with ordinality as d (id, number, n)
    left join lateral (
      select m.id from message m
      where m.queue = deliver.queue and m.id = d.id and m.incarnation = d.number
      offset 0
    ) m on true
    order by d.n
  );
  for i in select d.n from unnest(ids, letters) with ordinality as d (id, letter, n)
           where d.letter = '' order by d.id collate "C", d.n
  loop
    if not in_turn and coalesce(rules[i], 'K') in ('K', 'R') then
      letters[i] := lower(coalesce(rules[i], 'K'));
    else
      arrival := row(
        numbers[i], now, now + make_interval(secs => coalesce(delays[i], 0)), coalesce(priorities[i], 0),
        substr(rules[i], 1, 1) = '1',
        case substr(rules[i], 2, 1) when 'a' then 'always' when 'n' then 'never'
                                    when 'l' then 'if_later' when 'e' then 'if_earlier' end,
        substr(rules[i], 3, 1) = '1', substr(rules[i], 4, 1) = '1',
        deliver.queue, ids[i], deliver.headers[i], bodies[i], keys[i], deliver.awaits[i], parents[i]
      );
      loop
        select m.token is not null, m.key into held, old_key from message m
          where m.queue = deliver.queue and m.id = ids[i] for update;
        if held is not null and coalesce(rules[i], 'K') in ('K', 'R') then
          letters[i] := lower(coalesce(rules[i], 'K'));
        elsif held then
          perform block(arrival);
          letters[i] := 'b';
        elsif not held then
          perform revise(arrival);
          freed := freed || old_key;
          letters[i] := 'u';
        else -- it is new, or has ended meanwhile
          insert into message (queue, id, incarnation, number, priority, sent_at, due, headers, body,
                               key, awaits, reports_to)
            values (deliver.queue, ids[i], arrival.number, arrival.number, arrival.priority,
                    arrival.sent_at, arrival.due, arrival.headers, arrival.body,
                    arrival.key, arrival.awaits, arrival.reports_to)
            on conflict (queue, id) do nothing;
          continue when not found;
          letters[i] := 'c';
        end if;
        exit;
      end loop;
    end if;
  end loop;
  if freed is not null then
    perform let_go(deliver.queue, freed);
  end if;

  -- What was reported under the id of one that awaits reports was for another.
  if deliver.awaits is not null then
    delete from report r where r.queue = deliver.queue and r.parent = any (array(
      select d.id from unnest(letters, ids, deliver.awaits) as d (letter, id, awaits)
      where d.letter = 'c' and d.awaits is not null
    ));
  end if;
  -- One that reports to a message which has heard of its end already has been: it is not created.
  if parents is not null then
    for i in select d.n from unnest(letters, ids, parents) with ordinality as d (letter, id, parent, n)
             where d.letter = 'c' and exists (
               select from report r where r.queue = deliver.queue and r.parent = d.parent and r.id = d.id
             ) and exists (
               select from message m where m.queue = deliver.queue and m.id = d.parent
             ) and not exists ( -- it is itself sent here, and later
               select from unnest(letters, ids) with ordinality as p (letter, id, n)
               where p.letter = 'c' and p.id = d.parent and p.n >= d.n
             )
    loop
      delete from message m where m.queue = deliver.queue and m.id = ids[i];
      letters[i] := 'k';
    end loop;
  end if;
  insert into created (queue, count)
    select deliver.queue, count(*) from unnest(letters) as l (letter) where l.letter = 'c' having count(*) > 0;
  return array_to_string(letters, '');
end $$;
