"""Bugs in the SQL functions."""

from __future__ import annotations

from tests.planted.bug import Bug


def bug(name: str, function: str, old: str, new: str, *proof: str) -> Bug:
    return Bug(name, f"bee_pg/sql/{function}.sql", old, new, proof)


TOKEN_CHECKS = (
    bug(
        "extend does not look at the token",
        "hold",
        " and m.token = r.token",
        "",
        "test_a_lease_that_was_taken_over_cannot_be_extended",
    ),
    bug(
        "extend takes every receipt for a good one",
        "extend",
        "from hold(extend.queue, ids, tokens) h;",
        "from hold(extend.queue, ids, array(select m.token from unnest(ids) with ordinality as u (id, n)"
        " left join message m on m.queue = extend.queue and m.id = u.id order by u.n)) h;",
        "test_a_lease_that_was_taken_over_cannot_be_extended",
    ),
    bug(
        "settle does not look at the token",
        "settle",
        " and m.token = r.token",
        "",
        "test_a_stale_worker_cannot_settle_someone_elses_lease",
    ),
)

OTHERS = (
    bug(
        "a purge takes what is held",
        "purge",
        "and not w.leased and w.token is null",
        "and not w.leased",
        "test_a_lease_that_ran_out_is_not_purged_until_it_is_taken_over",
    ),
    bug(
        "a lease is extended from its end",
        "extend",
        "leased_until = clock_timestamp() + make_interval",
        "leased_until = leased_until + make_interval",
        "test_a_lease_is_extended_from_now_and_not_from_its_end",
    ),
    bug(
        "drafts of lost receipts are sent",
        "settle",
        "      where d.receipt = any (held);",
        ";",
        "test_nothing_follows_a_lease_that_was_lost",
    ),
    bug(
        "timeouts count as errors",
        "settle",
        "        deliveries = m.deliveries + s.deliveries, errors = m.errors + s.errors,",
        "        deliveries = m.deliveries + s.deliveries, errors = m.errors + s.timeouts,",
        "test_a_lease_can_be_settled_only_once",
    ),
    bug(
        "one that is given back keeps its token",
        "settle",
        "token  = null, leased = false,",
        "leased = false,",
        "test_a_lease_can_be_settled_only_once",
    ),
    bug(
        "the archive keeps nothing",
        "settle",
        "where s.way = 'A'",
        "where s.way = 'X'",
        "test_the_archive_keeps_the_whole_message",
    ),
    bug(
        "a repeat does not wait",
        "settle",
        "        due    = case s.way when 'R' then now + make_interval(secs => s.delay) else m.due end,",
        "        due    = case s.way when 'R' then now else m.due end,",
        "test_a_message_repeated_later_is_hidden_until_then",
    ),
    bug(
        "leases run out at once",
        "lease",
        "l.leased_until <= now",
        "l.leased_until <= now + interval '1 hour'",
        "test_a_held_message_is_hidden_from_everybody_else",
    ),
    bug(
        "leases never run out",
        "lease",
        "l.leased_until <= now",
        "l.leased_until <= 'epoch'",
        "test_a_lease_says_when_it_was_taken",
    ),
    bug(
        "what is delayed is given out at once",
        "lease",
        "= level.rank and m.due <= now",
        "= level.rank",
        "test_a_delayed_message_is_hidden_until_it_is_due",
    ),
    bug(
        "a pause holds nobody up",
        "lease",
        "select exists (select from paused p where p.queue = lease.queue),",
        "select false,",
        "test_a_paused_queue_gives_nothing",
    ),
    bug(
        "two decide about one key at once",
        "turn",
        "where not t.had",
        "where false",
        "test_in_no_stretch_of_time_more_is_delivered_than_is_allowed",
    ),
    Bug(
        "sending an id again replaces its message",
        "bee_pg/statements/send_one.sql",
        "on conflict (queue, id) do nothing",
        "on conflict (queue, id) do update set body = excluded.body",
        ("test_an_id_that_is_held_is_still_taken",),
    ),
    bug(
        "a delay is ignored",
        "deliver",
        "             now + make_interval(secs => coalesce(d.delay, 0)), d.headers",
        "             now, d.headers",
        "test_a_delayed_message_is_hidden_until_it_is_due",
    ),
    bug(
        "an update changes what somebody holds",
        "deliver",
        "          perform block(arrival);",
        "          perform revise(arrival);",
        "test_updating_a_held_message_makes_a_successor",
    ),
    bug(
        "a successor does not wait for its time",
        "succeed",
        "f.sent_at, f.due, f.headers",
        "f.sent_at, clock_timestamp(), f.headers",
        "test_the_time_of_a_successor_is_changed_by_the_same_rules",
    ),
    bug(
        "errors are never reset",
        "revise",
        "errors     = case when a.resets then 0 else m.errors end",
        "errors     = m.errors",
        "test_an_update_replaces_everything_unless_told_otherwise",
    ),
    bug(
        "a held message is cancelled though it was to be spared",
        "cancel",
        "select array_agg(h.id) filter (where h.token is null or running),",
        "select array_agg(h.id),",
        "test_a_held_message_can_be_spared",
    ),
    bug(
        "what is cancelled is not archived",
        "cancel",
        "if archived then",
        "if false then",
        "test_a_message_cancelled_to_archive_is_kept_as_cancelled",
    ),
    bug(
        "the first life of an id is restored, not the last",
        "restore",
        "order by a.archived_at desc, a.incarnation desc",
        "order by a.archived_at, a.incarnation",
        "test_the_life_that_was_archived_last_is_restored_first",
    ),
    bug(
        "pruning spares nothing",
        "prune",
        "least(most, kept - spared)",
        "most",
        "test_pruning_keeps_the_newest",
    ),
    bug(
        "the first report makes its message due",
        "tell",
        "m.heard >= m.awaits",
        "m.heard >= 1",
        "test_it_is_due_when_the_last_report_is_there_and_not_before",
    ),
    bug(
        "who leaves the archive is still counted",
        "tally",
        "case tg_op when 'INSERT' then 1 else -1 end",
        "1",
        "test_a_restored_message_is_no_longer_in_the_archive",
    ),
    bug(
        "if_later also brings forward",
        "moves",
        "when 'if_later' then new > old",
        "when 'if_later' then true",
        "test_run_at_if_later_only_puts_off",
    ),
    bug(
        "nobody is next when a key is let go",
        "let_go",
        "where k.key is not null",
        "where false",
        "test_as_many_are_held_at_a_time_as_are_asked_for",
    ),
    bug(
        "a rate allows any number",
        "room",
        "select times - coalesce(sum(d.count), 0)",
        "select times",
        "test_no_more_is_delivered_than_the_rate_of_the_queue_allows",
    ),
    bug(
        "nobody is woken",
        "ring",
        "if ring.times > 0 then",
        "if false then",
        "test_a_message_sent_meanwhile_is_heard",
        "test_a_key_that_is_let_go_is_heard",
        "waiting",
    ),
)

BUGS = TOKEN_CHECKS + OTHERS
