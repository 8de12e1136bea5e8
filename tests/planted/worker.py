"""Bugs in the worker, and in the rules that it follows."""

from __future__ import annotations

from tests.planted.bug import Bug


def bug(name: str, module: str, old: str, new: str, *tests: str) -> Bug:
    return Bug(name, f"bee_core/{module}.py", old, new, tests)


TOKEN_CHECKS = (
    bug(
        "a job whose lease is lost is settled all the same",
        "attempt",
        "return None if isinstance(ending, LostLease) else ending",
        "return outcome if isinstance(ending, LostLease) else ending",
        "tests/worker/test_lost_lease.py::test_a_stolen_job_is_stopped_and_its_new_owner_unharmed",
    ),
    bug(
        "a handler whose lease is lost runs on",
        "held",
        "            else:\n                self.slots.end(attempt, how)",
        "",
        "tests/worker/test_lost_lease.py::test_a_stolen_job_is_stopped_and_its_new_owner_unharmed",
    ),
    bug(
        "the heartbeat keeps to itself what it has lost",
        "heartbeat",
        "        if gone:\n",
        "        if False:\n",
        "tests/worker/test_lost_lease.py::test_a_stolen_job_is_stopped_and_its_new_owner_unharmed",
    ),
    bug(
        "what could not be renewed in time is not taken for lost",
        "heartbeat",
        "        if overdue:\n",
        "        if False:\n",
        "tests/worker/test_fencing.py::test_a_broker_that_is_away_for_longer_than_a_lease_stops_the_handlers",
    ),
    bug(
        "a settlement that was lost is told as settled",
        "settler",
        "            if lost:  # as a rule, none is\n",
        "            if False:\n",
        "tests/worker/test_lost_lease.py::test_a_job_that_ends_before_its_loss_is_known_changes_nothing",
    ),
)

OTHERS = (
    bug(
        "leases are renewed when they have run out",
        "heartbeat",
        "<= 2 * third + 0.001]",
        "<= 0.0]",
        "tests/worker/test_lost_lease.py::test_a_stolen_job_is_stopped_and_its_new_owner_unharmed",
    ),
    bug(
        "a stuck handler keeps its lease for ever",
        "heartbeat",
        "return not attempt.running or now < attempt.deadline + self._patience",
        "return True",
        "tests/worker/test_blocked_loop.py::test_a_job_that_blocks_beyond_its_own_deadline_loses_its_lease_in_the_end",
    ),
    bug(
        "a settlement is forgotten when the broker is away",
        "settler",
        '                    await self._trouble.back_off("settle", error)\n                    continue\n',
        "                    return\n",
        "tests/worker/test_broker_trouble.py::test_whatever_fails_and_whenever_every_job_is_done_in_the_end",
    ),
    bug(
        "one settlement that is refused takes the whole batch with it",
        "settler",
        "                if len(batch) == 1:\n",
        "                if batch:\n",
        "tests/worker/test_settlement.py::test_a_settlement_that_is_refused_harms_no_other_and_gives_its_message_back",
    ),
    bug(
        "an answer that was lost is taken for certain",
        "settler",
        "certain = certain and not isinstance(error, OutcomeUnknown)",
        "certain = True",
        "tests/worker/test_settlement.py::test_an_answer_that_is_lost_settles_once_and_says_that_it_is_not_certain",
    ),
    bug(
        "one repeat too few",
        "decide",
        "and count > times:",
        "and count >= times:",
        "tests/worker/test_policies.py::test_the_send_outranks_the_class_which_outranks_the_queue",
    ),
    bug(
        "timeouts are looked up among the errors",
        "decide",
        "rules.on_timeout, counters.timeouts,",
        "rules.on_timeout, counters.errors,",
        "tests/core/test_decide.py",
    ),
    bug(
        "a permanent error is repeated",
        "decide",
        "            return _terminal(rules.on_error)",
        "            return rules.on_error if not isinstance(rules.on_error, Repeat) else Reschedule(1)",
        "tests/core/test_decide.py",
    ),
    bug(
        "a job that is repeated is followed all the same",
        "verdict",
        "if isinstance(disposition, Reschedule) or isinstance(outcome, Interrupted):",
        "if isinstance(outcome, Interrupted):",
        "tests/worker/test_then.py::test_nothing_follows_from_a_job_that_is_not_done",
    ),
    bug(
        "being given back costs a job",
        "verdict",
        "free = Counters(releases=1)",
        "free = Counters(errors=1)",
        "tests/worker/test_shutdown.py::test_a_stop_while_a_lease_is_under_way_gives_back_what_it_brings",
    ),
    bug(
        "a worker that stops starts what its last lease brings",
        "held",
        '        if self._stopping:\n            self._give_back(attempt, "its worker stops")',
        '        if False:\n            self._give_back(attempt, "its worker stops")',
        "tests/worker/test_shutdown.py::test_a_stop_while_a_lease_is_under_way_gives_back_what_it_brings",
    ),
    bug(
        "a job that kills its worker does so for ever",
        "held",
        "if lease.counters.stalls and is_poisoned(rules, lease.counters):",
        "if False:",
        "tests/worker/test_poison.py::test_poison_is_archived_after_as_many_crashes_as_its_policy_allows",
    ),
    bug(
        "what cannot be read is given back for ever",
        "held",
        "outcome = Unknown(problem) if isinstance(error, UnknownJob) else Malformed(problem)",
        "outcome = Unknown(problem)",
        "tests/worker/test_unreadable.py::test_bytes_that_are_no_job_are_archived_whole_and_their_neighbours_run",
    ),
    bug(
        "jobs that outlast the grace are waited for",
        "held",
        "        self.slots.interrupt()\n",
        "",
        "tests/worker/test_shutdown.py::test_a_job_that_outlasts_the_grace_is_given_back_to_its_place_at_no_cost",
    ),
    bug(
        "what was settled is still held",
        "held",
        "            self._attempts.pop(ended.settlement.receipt.token, None)\n",
        "            pass\n",
        "tests/worker/test_settlement.py::test_a_message_given_back_is_tried_again",
    ),
    bug(
        "a handler that exits takes its worker with it",
        "attempt",
        "        except BaseException as error:\n            end_if_forked",
        "        except Exception as error:\n            end_if_forked",
        "tests/worker/test_raising.py::test_whatever_is_raised_fails_the_job_and_not_the_worker",
    ),
    bug(
        "a handler that ignores its cancellation is told only once",
        "slots",
        "elif attempt.cancels < 2:",
        "elif attempt.cancels < 1:",
        "tests/worker/test_stuck.py::test_a_handler_that_swallows_its_cancellation_once_is_told_again",
    ),
    bug(
        "trouble with a lease ends the worker",
        "fetcher",
        "        except (BrokerClosed, BrokerMisconfigured):\n            raise\n",
        "        except Exception:\n            raise\n",
        "tests/worker/test_broker_trouble.py::test_whatever_fails_and_whenever_every_job_is_done_in_the_end",
    ),
    bug(
        "a worker that stops goes on taking",
        "fetcher",
        "        self._stopped = True\n",
        "        pass\n",
        "tests/worker/test_shutdown.py::test_an_idle_worker_stops_at_once",
    ),
)

BUGS = TOKEN_CHECKS + OTHERS
