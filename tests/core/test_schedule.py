"""Schedules, as pure functions: their instants, and what is done when a worker comes to one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

import bee_core as bee
from bee_core.schedule import LOOK_IN, ComeBack, Lapse, Plan, Tick, tick
from bee_core.timing import Cron, Every, Timing, latest
from bee_memory import MemoryBroker

from .support import Jobs, Resize, SendEmail, Stranger

MAIL = SendEmail(to="ada@example.org")

LINES = [
    "* * * * *",
    "*/7 * * * *",
    "0 * * * *",
    "0 */2 * * *",
    "*/10 */2 * * *",
    "*/30 2 * * *",
    "59 1-3 * * *",
    "30 2 * * *",
    "15,45 1,2,3 * * *",
    "0 2 * * *",
    "0 3 * * SUN",
    "30 1 1 * *",
    "5 4 29 2 *",
    "30 2 L * *",
    "*/20 1-2 25-31 3,10 0",
]
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Asia/Kathmandu",
    "America/St_Johns",
    "Africa/Casablanca",
]
CHANGES = {
    "Europe/Berlin": ["2026-03-29", "2026-10-25"],
    "America/New_York": ["2026-03-08", "2026-11-01"],
    "Australia/Lord_Howe": ["2026-04-05", "2026-10-04"],
    "Australia/Sydney": ["2026-04-05", "2026-10-04"],
    "America/St_Johns": ["2026-03-08", "2026-11-01"],
    "Africa/Casablanca": ["2026-02-15", "2026-03-22"],
}


def at(text: str) -> float:
    """An instant, written as text in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def shown(timing: Timing, start: str, end: str) -> list[str]:
    """The instants of a stretch of time, as clocks in UTC show them."""
    found, instant = [], at(start)
    while (instant := timing.after(instant)) <= at(end):
        found.append(datetime.fromtimestamp(instant, UTC).strftime("%m-%d %H:%M"))
    return found


timings = st.one_of(
    st.builds(Every, st.one_of(st.integers(1, 10**7), st.floats(1, 10**7)).map(float)),
    st.builds(Cron, st.sampled_from(LINES), st.sampled_from(ZONES)),
)
instants = st.floats(0, 4e9)


# Their instants.


@settings(deadline=None)
@given(timings, instants)
def test_the_next_instant_is_later(timing: Timing, instant: float) -> None:
    assert timing.after(instant) > instant


@settings(deadline=None)
@given(timings, instants, instants)
def test_a_later_time_has_no_earlier_next_instant(timing: Timing, one: float, two: float) -> None:
    earlier, later = sorted([one, two])

    assert timing.after(earlier) <= timing.after(later)


@settings(deadline=None)
@given(timings, instants, st.floats(0, 1, exclude_max=True))
def test_it_is_the_same_from_anywhere_before_it(
    timing: Timing, instant: float, share: float
) -> None:
    found = timing.after(instant)
    between = instant + share * (found - instant)

    assert between >= found or found == timing.after(between)


@settings(deadline=None)
@given(timings, instants, st.floats(0, 40 * 86_400))
def test_the_latest_instant_is_the_one_with_none_between_it_and_now(
    timing: Timing, before: float, while_: float
) -> None:
    first = timing.after(before)
    now = first + while_

    found = latest(timing, first, now)

    assert first <= found <= now < timing.after(found)
    assert found == first or timing.after(found - 0.5) == found


def test_intervals_are_counted_from_the_epoch() -> None:
    assert 120.0 == Every(60.0).after(60.0)
    assert 120.0 == Every(60.0).after(119.999)
    assert 1_000_000_020.0 == Every(60.0).after(1_000_000_000.0)
    assert at("2026-03-29T00:00:00") == Every(86_400.0).after(at("2026-03-28T18:00:00"))


def test_a_time_that_the_clock_leaps_over_comes_right_after() -> None:
    """Berlin, 29 March 2026: after 01:59 comes 03:00, which is 01:00 in UTC."""
    half_past_two = Cron("30 2 * * *", "Europe/Berlin")

    assert ["03-28 01:30", "03-29 01:00", "03-30 00:30"] == shown(
        half_past_two, "2026-03-28T00:00", "2026-03-30T12:00"
    )


def test_a_time_that_the_clock_shows_twice_comes_once() -> None:
    """Berlin, 25 October 2026: after 02:59 comes 02:00 again, which is 01:00 in UTC."""
    half_past_two = Cron("30 2 * * *", "Europe/Berlin")

    assert ["10-24 00:30", "10-25 00:30", "10-26 01:30"] == shown(
        half_past_two, "2026-10-24T00:00", "2026-10-26T12:00"
    )


@pytest.mark.parametrize(
    ("tz", "day", "expected"),
    [
        ("America/New_York", "2026-03-08", "03-08 07:00"),
        ("America/New_York", "2026-11-01", "11-01 07:15"),
        ("Australia/Lord_Howe", "2026-10-04", "10-03 15:30"),
        ("Australia/Lord_Howe", "2026-04-05", "04-04 15:45"),
    ],
)
def test_fixed_times_near_a_change_elsewhere(tz: str, day: str, expected: str) -> None:
    """A quarter past two: left out in spring, and there once in autumn, also by half an hour."""
    quarter_past = Cron("15 2 * * *", tz)
    noon = datetime.fromisoformat(day).replace(hour=12, tzinfo=ZoneInfo(tz)).timestamp()

    found = quarter_past.after(noon - 20 * 3600)

    assert expected == datetime.fromtimestamp(found, UTC).strftime("%m-%d %H:%M")
    assert quarter_past.after(found) > noon


def test_every_hour_follows_real_time() -> None:
    hourly = Cron("0 * * * *", "Europe/Berlin")

    assert 24 == len(shown(hourly, "2026-03-29T00:00", "2026-03-30T00:00"))
    assert 24 == len(shown(hourly, "2026-10-25T00:00", "2026-10-26T00:00"))


def test_a_change_by_half_an_hour_skips_no_even_hour() -> None:
    """Lord Howe, 5 April 2026: after 01:59 comes 01:30 again, and then 02:00, 15:30 in UTC."""
    even_hours = Cron("0 */2 * * *", "Australia/Lord_Howe")

    assert ["04-04 13:00", "04-04 15:30", "04-04 17:30"] == shown(
        even_hours, "2026-04-04T12:00", "2026-04-04T18:00"
    )


def test_leap_days() -> None:
    leap = Cron("0 12 29 2 *", "Europe/Berlin")
    years = []
    instant = at("2095-01-01")
    for _ in range(3):
        instant = leap.after(instant)
        years.append(datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d"))

    assert ["2096-02-29", "2104-02-29", "2108-02-29"] == years


def matches(line: str) -> tuple[Callable[[datetime], bool], bool]:
    """What a clock must show, tested field by field; and whether the line is of fixed times."""
    fields = CronSim(line, datetime(2026, 1, 1))
    minute, hour = line.split()[:2]

    def match(wall: datetime) -> bool:
        return (
            wall.minute in fields.minutes
            and wall.hour in fields.hours
            and wall.month in fields.months
            and fields.match_day(wall.date())
        )

    return match, not (minute.startswith("*") or hour.startswith("*"))


def minute_by_minute(line: str, tz: str, start: datetime, end: datetime) -> list[float]:
    """The instants, found by looking at the clock every minute, as Debian's cron does."""
    match, fixed = matches(line)
    zone = ZoneInfo(tz)
    found, now = [], start
    furthest = (start - timedelta(minutes=1)).astimezone(zone).replace(tzinfo=None)
    while now <= end:
        wall = now.astimezone(zone).replace(tzinfo=None)
        if fixed:  # every minute once, those that were leapt over in one go
            passed = []
            while furthest < wall:
                furthest += timedelta(minutes=1)
                passed.append(furthest)
        else:
            passed = [wall]
        if any(match(minute) for minute in passed):
            found.append(now.timestamp())
        now += timedelta(minutes=1)
    return found


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(("tz", "day"), [(tz, day) for tz, days in CHANGES.items() for day in days])
def test_around_a_change_it_is_as_if_the_clock_was_watched(line: str, tz: str, day: str) -> None:
    middle = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(tz)).astimezone(UTC)
    start, end = middle - timedelta(hours=8), middle + timedelta(hours=20)
    timing = Cron(line, tz)

    found, instant = [], start.timestamp() - 1
    while (instant := timing.after(instant)) <= end.timestamp():
        found.append(instant)

    assert minute_by_minute(line, tz, start, end) == found


# What is declared.


def schedule(**options: object) -> bee.Schedule[Jobs]:
    return bee.Schedule("nightly", MAIL, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "exactly one of them"),
        ({"every": 60, "cron": "* * * * *"}, "exactly one of them"),
        ({"every": 0.5}, "every must be between 1 s"),
        ({"every": "60"}, "every must be seconds"),
        ({"every": 60, "tz": "Europe/Berlin"}, "tz goes with cron only"),
        ({"cron": "* * * *"}, "five fields"),
        ({"cron": "0 * * * * *"}, "five fields"),
        ({"cron": "@daily"}, "five fields"),
        ({"cron": 5}, "five fields"),
        ({"cron": "61 * * * *"}, "Bad minute"),
        ({"cron": "* 24 * * *"}, "Bad hour"),
        ({"cron": "0 0 30 2 *"}, "Bad day-of-month"),
        ({"cron": "0 0 */20 * 1L"}, "a day that never comes"),
        ({"cron": "0 0 * * *", "tz": "Europe/Berlyn"}, "pip install tzdata"),
        ({"cron": "0 0 * * *", "tz": "Europe"}, "pip install tzdata"),
        ({"cron": "0 0 * * *", "tz": "../etc/passwd"}, "pip install tzdata"),
        ({"cron": "0 0 * * *", "tz": UTC}, "a name such as 'Europe/Berlin'"),
        ({"every": 60, "missed": "all"}, "missed is 'once' or 'skip'"),
        ({"every": 60, "late": 0}, "late must be between 1 s"),
    ],
)
def test_a_bad_declaration_says_what_to_do(options: dict[str, object], words: str) -> None:
    with pytest.raises(bee.InvalidOption, match=words) as refused:
        schedule(**options)

    assert "schedule 'nightly'" in str(refused.value)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 101, None, 5])
def test_a_name_is_as_an_id_and_not_too_long(name: str) -> None:
    with pytest.raises(bee.InvalidName, match="a schedule's name"):
        bee.Schedule(name, MAIL, every=60)


def test_the_longest_name_still_makes_an_id() -> None:
    queue = bee.Hive("memory://").queue("mail", Jobs)

    queue.schedule("é" * 100, MAIL, every=1.5)

    (declared,) = queue.handlers.schedules.values()
    assert 200 >= len(declared.job(1_000_000_000.5).id)
    assert 200 >= len(declared.id)


def test_a_worker_takes_schedules_only() -> None:
    with pytest.raises(bee.InvalidOption, match="of the class Schedule; not 'nightly'"):
        bee.Worker(
            MemoryBroker(),
            "mail",
            Jobs,
            print,
            schedules=["nightly"],  # type: ignore[list-item]
        )


def test_a_queue_takes_a_name_once_and_jobs_of_its_own_only() -> None:
    queue = bee.Hive("memory://").queue("mail", Jobs)
    queue.schedule("pulse", MAIL, every=60)

    with pytest.raises(bee.InvalidOption, match="'pulse' already"):
        queue.schedule("pulse", Resize("x.png"), every=30)
    with pytest.raises(bee.InvalidPayload, match="Stranger is not a job of this queue"):
        queue.schedule("other", Stranger(), every=60)  # type: ignore[arg-type]
    with pytest.raises(bee.InvalidOption, match="priority"):
        queue.schedule("other", MAIL, every=60, priority=10)
    with pytest.raises(bee.InvalidName, match="key"):
        queue.schedule("other", MAIL, every=60, key="")
    assert ["pulse"] == list(queue.schedules)


def test_what_is_declared_can_be_looked_at() -> None:
    queue = bee.Hive("memory://").queue("mail", Jobs)

    nightly = queue.schedule("nightly", MAIL, cron="30 3 * * *", tz="Europe/Berlin")

    assert nightly is queue.schedules["nightly"]
    assert "cron 30 3 * * * Europe/Berlin" == str(nightly.timing)
    since = datetime(2026, 3, 28, tzinfo=UTC)
    assert [
        datetime(2026, 3, 28, 2, 30, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
    ] == nightly.upcoming(2, after=since)
    assert nightly.upcoming()[0] > datetime.now(UTC)
    with pytest.raises(bee.InvalidOption, match="aware"):
        nightly.upcoming(after=datetime(2026, 1, 1))
    with pytest.raises(bee.InvalidOption, match="aware"):
        nightly.upcoming(after="2026-01-01")  # type: ignore[arg-type]
    with pytest.raises(bee.InvalidOption, match="count"):
        nightly.upcoming(-1)


def test_a_duration_may_be_a_timedelta() -> None:
    assert Every(90.0) == schedule(every=timedelta(minutes=1.5)).timing


def test_the_job_of_an_instant_is_named_after_it() -> None:
    assert "nightly@2001-09-09T01:46:40Z" == schedule(every=60).job_id(1_000_000_000.0)
    assert "nightly@2001-09-09T01:46:40.500000Z" == schedule(every=60).job_id(1_000_000_000.5)


# What is done when a worker comes to one.

MINUTE = schedule(every=60)
PLAN = Plan("every 60 s", 600.0, 540.0)


def test_a_new_schedule_is_planned_and_sends_nothing() -> None:
    found = tick(MINUTE, Plan("every 60 s"), 590.0)

    assert Tick(None, Plan("every 60 s", 600.0, None), 10.0) == found


def test_who_is_too_early_comes_back() -> None:
    assert ComeBack(0.5) == tick(MINUTE, PLAN, 599.5)


def test_who_is_on_time_sends_the_job_and_waits_for_the_next() -> None:
    found = tick(MINUTE, PLAN, 600.25)

    assert Tick(600.0, Plan("every 60 s", 660.0, 600.0), 59.75) == found


def test_who_is_late_and_not_too_late_sends_the_job_of_that_instant() -> None:
    hourly = schedule(every=3600, late=300)

    found = tick(hourly, Plan("every 3600 s", 3600.0), 3900.0)

    assert Tick(3600.0, Plan("every 3600 s", 7200.0, 3600.0), 3300.0) == found


def test_no_more_than_one_job_is_sent_for_all_that_lies_behind() -> None:
    found = tick(schedule(every=60, late=600), PLAN, 790.0)

    plan = Plan("every 60 s", 840.0, 780.0)
    assert Tick(600.0, plan, 50.0, Lapse(660.0, 190.0)) == found


def test_what_was_missed_is_sent_once_for_the_latest() -> None:
    found = tick(MINUTE, PLAN, 790.0)

    assert Tick(780.0, Plan("every 60 s", 840.0, 780.0), 50.0, Lapse(600.0, 190.0)) == found


def test_what_was_missed_is_skipped_if_asked() -> None:
    found = tick(schedule(every=60, missed="skip"), PLAN, 790.0)

    assert Tick(None, Plan("every 60 s", 840.0, 780.0), 50.0, Lapse(600.0, 190.0)) == found


def test_a_far_instant_is_looked_at_daily() -> None:
    yearly = schedule(cron="0 0 1 1 *")
    start = at("2026-02-01")

    planned = tick(yearly, Plan(str(yearly.timing)), start)

    assert isinstance(planned, Tick)
    assert (at("2027-01-01"), LOOK_IN) == (planned.plan.instant, planned.delay)
    assert ComeBack(LOOK_IN) == tick(yearly, planned.plan, start + LOOK_IN)
    assert ComeBack(3600.0) == tick(yearly, planned.plan, at("2026-12-31T23:00"))


def test_a_plan_of_another_declaration_is_made_anew_before_its_time() -> None:
    found = tick(schedule(every=7), PLAN, 550.0)

    assert Tick(None, Plan("every 7 s", 553.0, 540.0), 3.0) == found


def test_what_another_declaration_says_is_due_is_sent() -> None:
    found = tick(schedule(every=7), PLAN, 601.0)

    assert Tick(600.0, Plan("every 7 s", 602.0, 600.0), 1.0) == found


def test_what_another_declaration_missed_is_sent_once() -> None:
    found = tick(schedule(every=7), PLAN, 790.0)

    assert Tick(600.0, Plan("every 7 s", 791.0, 600.0), 1.0, Lapse(600.0, 190.0)) == found


@pytest.mark.parametrize("declared", [MINUTE, schedule(every=7)])
def test_a_clock_that_is_set_back_repeats_no_instant(declared: bee.Schedule[Jobs]) -> None:
    done = tick(declared, PLAN, 601.0)
    assert isinstance(done, Tick)

    again = tick(declared, done.plan, 100.0)
    anew = tick(schedule(every=5), done.plan, 100.0)

    assert isinstance(again, ComeBack)
    assert isinstance(anew, Tick)
    assert anew.sent is None
    assert anew.plan.instant == 605.0


@settings(deadline=None, max_examples=50)
@given(timings, instants, st.lists(st.floats(-1e5, 1e6), min_size=1, max_size=20))
def test_whatever_the_clock_does_no_instant_is_sent_twice(
    timing: Timing, start: float, steps: list[float]
) -> None:
    if isinstance(timing, Every):
        declared = schedule(every=timing.seconds)
    else:
        declared = schedule(cron=timing.expression, tz=timing.tz)
    plan, now, sent = Plan(str(timing)), start, []
    for step in steps:
        found = tick(declared, plan, now)
        if isinstance(found, Tick):
            plan = found.plan
            sent += [] if found.sent is None else [found.sent]
        now = max(0.0, now + step)

    assert sorted(set(sent)) == sent
