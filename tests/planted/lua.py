"""Bugs in the Redis scripts."""

from __future__ import annotations

from tests.planted.bug import Bug


def bug(name: str, script: str, old: str, new: str, *proof: str) -> Bug:
    return Bug(name, f"bee_redis/lua/{script}.lua", old, new, proof)


TOKEN_CHECKS = (
    bug(
        "a usual settle does not look at the token",
        "settle_usual",
        " or sub(meta, 1, 8) ~= sub(tokens, 8 * i - 7, 8 * i) then",
        " then",
        "test_the_token_of_one_message_does_not_settle_another",
    ),
    bug(
        "a plain settle, among others, does not look at the token",
        "settle",
        " or token ~= string.sub(ARGV[2], 8 * i - 7, 8 * i) then",
        " then",
        "test_a_stale_receipt_is_lost_in_whatever_company_it_is_settled",
    ),
    bug(
        "a full settle does not look at the token",
        "settle",
        " or text(m.token) ~= ARGV[at + 1] then",
        " then",
        "test_a_stale_worker_cannot_settle_someone_elses_lease",
    ),
    bug(
        "extend does not look at the token",
        "extend",
        "if token == 0 or text(token) ~= ARGV[i + 1] then",
        "if token == 0 then",
        "test_a_lease_that_was_taken_over_cannot_be_extended",
    ),
)

OTHERS = (
    bug(
        "what a settlement counts is lost",
        "settle",
        "m.counters = add(m.counters, ARGV[at + 4])",
        "local _ = 0",
        "test_a_lease_can_be_settled_only_once",
    ),
    bug(
        "a repeat does not wait",
        "settle",
        "what == 'R' and NOW + ARGV[at + 3]",
        "what == 'R' and NOW",
        "test_a_message_repeated_later_is_hidden_until_then",
    ),
    bug(
        "what is given back goes behind the others",
        "settle",
        "give_back(m, due, m.number)",
        "give_back(m, NOW, next_numbers(1) + 1)",
        "test_a_message_given_back_to_the_front_has_its_old_place",
    ),
    bug(
        "the first draft that follows is forgotten",
        "settle",
        "for i = 1, drafts do send(",
        "for i = 2, drafts do send(",
        "test_what_follows_is_sent_when_the_lease_ends",
    ),
    bug(
        "a settle wakes nobody",
        "settle",
        "ring(rings) -- 6. ring",
        "",
        "test_a_repeated_message_is_heard",
    ),
    bug(
        "a lease that is taken over counts no stall",
        "lease",
        "token_before ~= 0 and TAKEN_OVER or ONCE",
        "ONCE",
        "test_a_lease_that_ran_out_counts_one_stall",
    ),
    bug(
        "a message that was held is given to two who look at once",
        "lease",
        "call('ZREMRANGEBYRANK', READY, 0, seen - 1)",
        "",
        "test_a_message_gets_a_greater_token_each_time",
    ),
    bug(
        "all messages of a call have one token",
        "lease_usual",
        "pack('>I8', token + i * stride)",
        "pack('>I8', token + stride)",
        "test_a_large_batch_is_extended_and_settled_whole",
    ),
    bug(
        "a pause holds nobody up",
        "lease_usual",
        "if head[1] or token > NOW",
        "if token > NOW",
        "test_a_queue_can_be_paused_before_there_is_anything_in_it",
    ),
    bug(
        "leases never run out while there is other work",
        "lease_usual",
        "if at and at <= NOW then return end",
        "",
        "test_a_lease_says_when_it_was_taken",
    ),
    bug(
        "a lease is not written down",
        "lease_usual",
        "call('ZADD', LEASED, unpack(leases))",
        "",
        "test_a_lease_says_when_it_was_taken",
    ),
    bug(
        "two may hold one key",
        "lease",
        "count_holders(key, per_key) >= per_key",
        "count_holders(key, per_key) > per_key",
        "test_of_the_messages_of_one_key_one_is_held_at_a_time",
    ),
    bug(
        "a lease that ran out stays among the leases",
        "lib",
        "call('ZREMRANGEBYRANK', LEASED, 0, #over - 1)",
        "",
        "test_a_merge_at_take_over_may_make_the_message_due_later",
    ),
    bug(
        "of what has fallen due only the first is moved out of the delayed",
        "lib",
        "call('ZREMRANGEBYRANK', DELAYED, 0, #due / 2 - 1)",
        "call('ZREMRANGEBYRANK', DELAYED, 0, 0)",
        "test_what_falls_due_together_is_given_out_once",
    ),
    bug(
        "sending an id again replaces its message",
        "send_usual",
        "live[i] = call('HEXISTS', MSG, ARGV[i]) == 1",
        "live[i] = false",
        "test_sending_an_id_again_changes_nothing_and_says_so",
    ),
    bug(
        "a delay is ignored",
        "send_usual",
        "= NOW + ARGV[i + 2], ARGV[i + 3]",
        "= NOW, ARGV[i + 3]",
        "test_a_delayed_message_is_hidden_until_it_is_due",
    ),
    bug(
        "the lowest priority comes first",
        "send_usual",
        "level = priority == '0' and '0' or text(-priority)",
        "level = priority",
        "test_a_higher_priority_comes_first",
    ),
    bug(
        "what has reported already is created again",
        "lib",
        "if is_reported(new.reports_to, id) then return 'k' end",
        "",
        "test_a_message_that_has_reported_is_not_sent_again",
    ),
    bug(
        "counters are never reset",
        "lib",
        "if wants(rule, 4) then m.counters = ZERO end",
        "",
        "test_an_update_replaces_everything_unless_told_otherwise",
    ),
    bug(
        "a successor is forgotten when its time has come",
        "lib",
        "  create(id, blob)\n  return 1",
        "  return 1",
        "test_a_lease_that_ran_out_still_blocks_until_it_is_taken_over",
    ),
    bug(
        "a successor follows twice",
        "lib",
        "  call('HDEL', NEXT, id)\n",
        "",
        "test_a_successor_is_freed_when_the_first_has_ended",
    ),
    bug(
        "nobody is next when a key is let go",
        "lib",
        "  return unpark(key)",
        "  return 0",
        "test_as_many_are_held_at_a_time_as_are_asked_for",
    ),
    bug(
        "a held message is cancelled though it was to be spared",
        "cancel",
        "if m and (m.token == 0 or running) then",
        "if m then",
        "test_a_held_message_can_be_spared",
    ),
    bug(
        "the archive keeps nothing",
        "archive",
        "if archive then\n    keep(m)",
        "if archive then",
        "test_the_archive_keeps_the_whole_message",
    ),
    bug(
        "extending changes nothing",
        "extend",
        "call('ZADD', LEASED, until_then, id)",
        "",
        "test_an_extended_lease_does_not_run_out",
    ),
    bug(
        "what is live again is restored all the same",
        "restore",
        "if not record or fetch(id) then",
        "if not record then",
        "test_what_is_live_again_or_was_never_archived_is_not_restored",
    ),
    bug(
        "pruning spares nothing",
        "prune",
        "call('ZCARD', ARCHIVE) - tonumber(ARGV[2])",
        "call('ZCARD', ARCHIVE)",
        "test_pruning_keeps_the_newest",
    ),
    bug(
        "a purge takes what is held",
        "purge",
        "if not is_held(id) then",
        "if true then",
        "test_a_lease_that_ran_out_is_not_purged_until_it_is_taken_over",
    ),
)

BUGS = TOKEN_CHECKS + OTHERS
