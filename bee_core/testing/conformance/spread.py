"""What a store need not keep that spreads each queue over parts (see `Spread`), and why.

A store like that is held to the suite twice: with all messages in one part to the whole of
`BrokerConformance` (but for what is IN_NO_PART), and with its parts in use to `SpreadConformance`,
which is all of it but for the tests named here. Most of these are about something else, but rely on
the order in passing, or send messages under ids that are not in one part.
"""

from __future__ import annotations

from collections.abc import Mapping

from bee_core.testing.conformance.awaits import Awaiting
from bee_core.testing.conformance.harness import Conformance
from bee_core.testing.conformance.heard import Heard
from bee_core.testing.conformance.keys import Keyed
from bee_core.testing.conformance.order import Ordering
from bee_core.testing.conformance.parked import PassedOver
from bee_core.testing.conformance.reports import Reporting
from bee_core.testing.conformance.then import Following
from bee_core.testing.conformance.throttle import Throttled
from bee_core.testing.conformance.turns import Crowded, Turns

ORDER = "the order holds within a part, not over several"
PRUNING = "each part keeps its newest"
TOKENS = "tokens are unique, but grow within a part only"
STEP = "what is sent as a lease ends has to be in the part of that message"
GROUPS = "a message has to be in the part of the one that it reports to"
KEYS = "a message has to be in the part of its key"
RATES = "a rate of the whole queue is refused"
BATCH = "a batch with Reject has to be in one part"
NAMES = "the name of a queue is shorter"

WHOLE: Mapping[str, tuple[type[Conformance], ...]] = {
    ORDER: (Ordering,),
    STEP: (Following,),
    GROUPS: (
        Awaiting,
        Heard,
        Reporting,
    ),
    KEYS: (
        Crowded,
        Keyed,
        PassedOver,
        Throttled,
        Turns,
    ),
}
"""Parts of the suite that are left out whole, by the reason."""

SINGLE: Mapping[str, tuple[str, ...]] = {
    ORDER: (
        "test_sending_an_id_again_changes_nothing_and_says_so",
        "test_a_batch_says_for_each_draft_what_was_done",
        "test_headers_come_back_as_they_were",
        "test_any_text_can_be_an_id",
        "test_a_large_batch_is_stored_whole_and_in_order",
        "test_a_lease_takes_no_more_than_it_was_asked_to",
        "test_only_the_lease_that_ran_out_comes_back",
        "test_however_many_leases_ran_out_all_come_back",
        "test_a_message_repeated_later_is_hidden_until_then",
        "test_a_late_worker_may_settle_if_nobody_took_over",
        "test_a_batch_names_only_the_lost_ones",
        "test_the_token_of_one_message_does_not_settle_another",
        "test_what_is_kept_is_gone_when_its_time_is_over",
        "test_of_many_each_is_kept",
        "test_a_scan_shows_it_too",
        "test_only_what_is_extended_is_told",
        "test_a_cancelled_lease_is_an_episode_and_a_message_that_waits_has_none",
        "test_many_are_settled_at_once_each_with_its_own",
        "test_one_that_holds_leases_and_has_announced_itself_is_listed_once",
        "test_what_has_ended_still_counts",
        "test_a_new_priority_takes_effect",
        "test_a_message_whose_time_is_replaced_goes_to_the_back",
        "test_a_message_whose_time_is_left_keeps_its_place",
        "test_a_merge_at_the_front_keeps_the_place_or_goes_to_the_back",
        "test_a_merge_at_take_over_may_make_the_message_due_later",
        "test_a_merge_at_take_over_keeps_the_place_or_goes_to_the_back",
        "test_a_cancelled_message_is_never_given_out",
        "test_a_held_message_can_be_spared",
        "test_a_cancelled_id_is_free_again",
        "test_restored_messages_line_up_behind_what_waits",
        "test_stats_count_every_state",
        "test_a_message_can_be_found_in_any_state",
        "test_a_worker_is_listed_with_its_first_lease_to_run_out",
        "test_a_scan_shows_each_message_as_get_does",
        "test_a_scan_shows_a_successor_as_it_will_be",
        "test_ready_messages_are_in_the_order_they_will_be_leased",
        "test_delayed_messages_are_in_the_order_they_fall_due",
        "test_delayed_messages_that_fall_due_together_are_in_order_of_priority",
        "test_leased_messages_are_in_the_order_their_leases_run_out",
        "test_archived_messages_are_newest_first",
        "test_pages_of_any_size_show_every_message_once",
        "test_the_last_page_says_so",
        "test_what_does_not_change_meanwhile_is_seen_exactly_once",
        "test_a_page_can_be_read_again",
        "test_purging_deletes_everything_that_waits_and_says_how_much",
        "test_a_purged_id_is_free_again",
        "test_a_resumed_queue_goes_on_where_it_stopped",
        "test_messages_of_one_moment_stay_in_their_order",
        "test_archived_messages_of_one_moment_stay_in_their_order",
        "test_adopted_messages_come_when_they_are_due_among_the_others",
        "test_a_thousand_and_more_are_adopted_at_once",
        "test_a_thousand_and_more_of_the_archive_stay_in_their_order",
        "test_a_state_that_has_a_lease_is_a_bad_option",
        "test_what_is_held_is_left_alone",
        "test_its_id_is_free",
        "test_a_wait_that_is_cancelled_takes_nothing_with_it",
        "test_a_clone_in_another_thread_sees_the_same_store",
        "test_a_cancelled_lease_loses_nothing",
    ),
    PRUNING: (
        "test_pruning_takes_the_oldest_first",
        "test_pruning_keeps_the_newest",
        "test_pruning_by_age_and_number_spares_both",
        "test_adopted_messages_are_pruned_by_their_age",
        "test_many_who_prune_at_once_keep_the_newest",
    ),
    TOKENS: ("test_many_may_raise_the_tokens_at_once",),
    STEP: (
        "test_what_follows_is_created",
        "test_the_holder_of_a_cancelled_message_has_lost_it",
        "test_a_lease_of_a_dropped_queue_is_lost",
        "test_what_is_held_goes_on_while_the_queue_is_paused",
        "test_what_follows_a_settled_message_is_heard",
        "test_a_cancelled_settle_is_applied_wholly_or_not_at_all",
    ),
    GROUPS: (
        "test_what_has_reported_already_is_not_created",
        "test_large_messages_are_adopted_and_expelled",
        "test_an_adopted_message_is_due_when_the_rest_has_reported",
        "test_an_adopted_message_reports_how_it_ends",
        "test_one_that_has_reported_already_is_adopted_all_the_same",
        "test_what_is_expelled_reports_to_nobody",
        "test_of_many_who_adopt_the_same_one_does",
    ),
    KEYS: (
        "test_of_those_that_wait_for_a_key_too_the_longest_due_counts",
        "test_one_that_gets_a_key_at_take_over_comes_before_those_behind_it",
        "test_an_adopted_message_keeps_all_it_has",
        "test_each_thing_alone_is_kept",
        "test_a_message_whose_id_is_live_is_not_taken_in",
        "test_an_archived_message_is_taken_in_once",
        "test_adopting_again_changes_nothing",
        "test_an_adopted_message_goes_on_where_it_was",
        "test_an_adopted_message_is_changed_like_any_other",
        "test_an_adopted_message_waits_for_its_key",
        "test_an_adopted_message_stands_among_those_of_its_key",
        "test_what_was_adopted_is_expelled_as_it_is_seen",
        "test_messages_go_to_another_queue_and_come_back",
        "test_what_was_changed_is_left_alone",
        "test_one_that_waits_for_its_key_is_expelled",
        "test_the_next_of_its_key_is_looked_at",
        "test_who_waits_hears_of_the_next_of_its_key",
        "test_all_of_a_key_are_expelled",
    ),
    RATES: (
        "test_all_who_lease_share_one_rate",
        "test_the_rate_of_one_queue_leaves_another_alone",
        "test_a_dropped_queue_begins_anew",
        "test_when_a_rate_allows_the_next_it_is_heard",
        "test_a_lease_that_ran_out_is_taken_over_when_its_time_has_come",
        "test_no_more_is_delivered_than_the_rate_of_the_queue_allows",
        "test_the_end_of_a_message_does_not_give_its_delivery_back",
        "test_the_last_of_a_queue_takes_no_count_with_it",
        "test_when_the_time_is_over_as_many_are_delivered_again",
        "test_the_stretch_of_time_may_begin_at_any_moment",
        "test_in_no_stretch_of_time_more_is_delivered_than_is_allowed",
        "test_a_lease_that_is_taken_over_is_a_delivery",
        "test_a_lease_that_ran_out_is_held_back_too",
        "test_what_is_passed_over_does_not_count_as_delivered",
        "test_what_is_held_back_keeps_its_place",
        "test_who_asks_for_less_gets_less",
    ),
    BATCH: (
        "test_what_was_there_already_is_not_created",
        "test_a_refused_send_stores_nothing_of_its_batch",
        "test_a_refused_send_changes_nothing_either",
        "test_a_free_id_is_never_refused",
        "test_a_batch_may_keep_create_update_and_follow",
        "test_of_many_who_insist_on_an_id_one_gets_it",
    ),
    NAMES: ("test_the_longest_name_and_the_longest_id_are_good",),
}
"""Single tests that are left out, by the reason."""

IN_NO_PART = (*SINGLE[RATES], *SINGLE[NAMES])
"""What is left out even if all messages are in one part."""


def left_out() -> dict[str, str]:
    """All tests that are left out, each with the reason."""
    named = {name: reason for reason, names in SINGLE.items() for name in names}
    parts = ((part, reason) for reason, found in WHOLE.items() for part in found)
    return named | {
        name: reason for part, reason in parts for name in vars(part) if name.startswith("test_")
    }
