"""Metrics for Prometheus: an observer that counts, and gauges of how full queues are.

Needs the extra `prometheus`. The observer knows nothing but the events it hears, so it may hear
those of several workers, and of several processes. No label is ever the id of a job.
How the metrics are served is up to the program: `prometheus_client.start_http_server`, say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, assert_never, get_args

from bee_core.broker import Inspector
from bee_core.checks import check_queue
from bee_core.clock import SYSTEM_CLOCK, Clock
from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.duration import Duration, seconds
from bee_core.errors import BrokerClosed, BrokerMisconfigured, InvalidOption
from bee_core.events import (
    AttemptLost,
    AttemptSettled,
    AttemptStarted,
    BrokerAilment,
    BrokerRecovered,
    BrokerTrouble,
    ConcurrencyChanged,
    Event,
    EventsDropped,
    HandlerStuck,
    LoopBlocked,
    ProcessEnded,
    ProcessSlowed,
    ProcessStarted,
    ResultDropped,
    ScheduleMissed,
    SettlementRefused,
    WorkerStarted,
    WorkerStopped,
    log,
)
from bee_core.logs import error_line, shown
from bee_core.message import Reason
from bee_core.outcome import reason_of
from bee_core.stored import QueueStats

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
except ImportError as error:
    need = 'prometheus_client is needed: pip install "bee-jobs[prometheus]"'
    raise ImportError(need) from error

BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Seconds: the upper ends of the histogram's buckets."""
OUTCOMES = [reason for reason in get_args(Reason) if reason != "cancelled"]
"""How attempts end; what is cancelled is no attempt, or is lost."""
FATES = ("deleted", "archived", "rescheduled")


class PrometheusObserver:
    """Counts what it hears: `Hive(observers=[log_events, PrometheusObserver()])`.

    registry   where the metrics are registered; by default the global one
    prefix     what their names begin with
    buckets    of the histogram of durations, in seconds
    """

    def __init__(
        self,
        *,
        registry: CollectorRegistry = REGISTRY,
        prefix: str = "bee",
        buckets: Iterable[float] = BUCKETS,
    ) -> None:
        self._registry = registry
        self._prefix = prefix
        job = ["queue", "tag"]
        self._attempts = self._counter("attempts", "Attempts settled.", [*job, "outcome"])
        self._fates = self._counter("fates", "What became of jobs.", [*job, "fate"])
        self._lost = self._counter("attempts_lost", "Attempts that lost their job.", job)
        self._stuck = self._counter("handlers_stuck", "Handlers that ignored cancelling.", job)
        self._dropped = self._counter("results_dropped", "Results that were not kept.", job)
        self._refused = self._counter("settlements_refused", "Settlements refused.", ["queue"])
        self._blocked = self._counter("loop_blocked", "Times the loop was blocked.", ["queue"])
        self._trouble = self._counter("broker_trouble", "Troubles begun.", ["queue", "verb"])
        self._recovered = self._counter("broker_recovered", "Troubles over.", ["queue", "verb"])
        self._ailments = self._counter("broker_ailments", "Findings.", ["queue", "topic"])
        self._missed = self._counter("schedules_missed", "Instants missed.", ["queue", "schedule"])
        self._ends = self._counter("processes_ended", "Processes ended.", ["process", "wanted"])
        self._loops = self._counter("crash_loops", "Crash loops begun.", ["process"])
        self._unheard = self._counter("events_dropped", "Events that nobody took in time.", [])
        self._running = self._gauge(
            "running_jobs", "Jobs that run, or have ended and are not settled yet."
        )
        self._sizes = self._gauge("concurrency", "Jobs at once, as Auto has set it last.")
        self._workers = self._gauge("workers", "Workers that take jobs now.")
        self._durations = Histogram(
            "attempt_duration_seconds",
            "From the start of a handler until its attempt was settled.",
            job,
            namespace=prefix,
            registry=registry,
            buckets=tuple(buckets),
        )
        self._known: dict[tuple[Any, ...], Any] = {}
        self._begun: dict[tuple[str, int], str] = {}  # queue and token: who runs it
        self._holders: dict[str, str] = {}  # workers, and their queues
        self._met: set[tuple[str, str]] = set()

    def __call__(self, event: Event) -> None:
        """Hear an event."""
        match event:
            case AttemptStarted(queue=queue, token=token, tag=tag, holder=holder):
                if (queue, tag) not in self._met:
                    self._meet(queue, tag)
                self._begun[queue, token] = holder
                self._series(self._running, queue).inc()
            case AttemptSettled():
                self._settled(event)
            case AttemptLost(queue=queue, token=token, tag=tag):
                self._ended(queue, token)
                self._series(self._lost, queue, tag).inc()
            case SettlementRefused(queue=queue, token=token):
                self._ended(queue, token)
                self._series(self._refused, queue).inc()
            case ResultDropped(queue=queue, tag=tag):
                self._series(self._dropped, queue, tag).inc()
            case HandlerStuck(queue=queue, tag=tag):
                self._series(self._stuck, queue, tag).inc()
            case LoopBlocked(queue=queue):
                self._series(self._blocked, queue).inc()
            case BrokerTrouble(queue=queue, verb=verb):
                self._series(self._recovered, queue, verb)
                self._series(self._trouble, queue, verb).inc()
            case BrokerRecovered(queue=queue, verb=verb):
                self._series(self._recovered, queue, verb).inc()
            case BrokerAilment(queue=queue, finding=finding):
                self._series(self._ailments, queue, finding.topic).inc()
            case ScheduleMissed(queue=queue, name=name):
                self._series(self._missed, queue, name).inc()
            case WorkerStarted(queue=queue, holder=holder):
                self._holders[holder] = queue
                self._series(self._workers, queue).inc()
                for metric in (self._running, self._blocked, self._refused):
                    self._series(metric, queue)
            case WorkerStopped(queue=queue, holder=holder):
                self._left(queue, holder)
            case ProcessStarted(process=process):
                for wanted in ("true", "false"):
                    self._series(self._ends, str(process), wanted)
            case ProcessEnded(process=process, pid=pid, wanted=wanted):
                self.process_ended(pid)
                self._series(self._ends, str(process), str(wanted).lower()).inc()
            case ProcessSlowed(process=process):
                self._series(self._loops, str(process)).inc()
            case EventsDropped(count=count):
                self._unheard.inc(count)
            case ConcurrencyChanged(queue=queue, size=size):
                self._series(self._sizes, queue).set(size)
            case _:
                assert_never(event)

    def process_ended(self, pid: int) -> None:
        """A process of this machine has ended, maybe without a word: its workers have left."""
        for holder, queue in list(self._holders.items()):
            if holder.split(":")[-2:-1] == [str(pid)]:
                self._left(queue, holder)

    def _meet(self, queue: str, tag: str) -> None:
        """Begin at 0 what may be counted of these jobs: an alert sees no rise in what is new."""
        self._met.add((queue, tag))
        for outcome in OUTCOMES:
            self._series(self._attempts, queue, tag, outcome)
        for fate in FATES:
            self._series(self._fates, queue, tag, fate)
        for metric in (self._lost, self._stuck, self._dropped):
            self._series(metric, queue, tag)

    def _settled(self, event: AttemptSettled) -> None:
        queue, tag = event.queue, event.tag
        if self._ended(queue, event.token):
            self._series(self._durations, queue, tag).observe(event.duration)
        self._series(self._attempts, queue, tag, reason_of(event.outcome)).inc()
        self._series(self._fates, queue, tag, _fate(event.disposition)).inc()

    def _ended(self, queue: str, token: int) -> bool:
        """Whether it had begun: bytes that nobody could read never did."""
        if self._begun.pop((queue, token), None) is None:
            return False
        self._series(self._running, queue).dec()
        return True

    def _left(self, queue: str, holder: str) -> None:
        """A worker has left, and what it ran with it, even if nobody said so."""
        if self._holders.pop(holder, None) is not None:
            self._series(self._workers, queue).dec()
        for key in [key for key, who in self._begun.items() if who == holder]:
            self._ended(*key)

    def _series(self, metric: Any, *labels: str) -> Any:
        key = (metric, *labels)
        series = self._known.get(key)
        if series is None:
            series = self._known[key] = metric.labels(*labels)
        return series

    def _counter(self, name: str, text: str, labels: list[str]) -> Counter:
        try:
            return Counter(name, text, labels, namespace=self._prefix, registry=self._registry)
        except ValueError as error:
            raise InvalidOption(
                f"{error}. One observer may serve several hives: give it to each of them"
            ) from error

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(
            name,
            text,
            ["queue"],
            namespace=self._prefix,
            registry=self._registry,
            multiprocess_mode="livesum",
        )


async def queue_metrics(
    store: Inspector,
    queues: Iterable[str],
    *,
    every: Duration = 15.0,
    registry: CollectorRegistry = REGISTRY,
    prefix: str = "bee",
    clock: Clock = SYSTEM_CLOCK,
) -> NoReturn:
    """Look at queues again and again, and offer what was seen last, until it is cancelled.

    A queue that could not be looked at is left out until it can: no figure is better than an old
    one. One process is enough for a store: the figures are those of the queue, not of a worker.
    """
    names = [check_queue(name) for name in queues]
    pause = seconds(every, "every", least=0.1)
    if not isinstance(store, Inspector):
        raise InvalidOption("queue_metrics needs a broker that is an Inspector too")
    seen = _Seen(prefix, clock, patience=3 * pause)
    registry.register(seen)
    try:
        while True:
            await seen.look(store, names)
            await clock.sleep(pause)
    finally:
        registry.unregister(seen)


class _Seen:
    """What was seen of queues. Scraped from another thread, so it is replaced as a whole."""

    def __init__(self, prefix: str, clock: Clock, patience: float) -> None:
        self._prefix = prefix
        self._clock = clock
        self._patience = patience
        self._last: tuple[float, Mapping[str, QueueStats]] = (clock.now(), {})
        self._unseen: dict[str, int] = {}

    async def look(self, store: Inspector, names: Iterable[str]) -> None:
        """Look at every queue once. What waiting cannot mend is raised."""
        stats: dict[str, QueueStats] = {}
        for name in names:
            self._unseen.setdefault(name, 0)
            try:
                stats[name] = await store.stats(name)
            except (BrokerClosed, BrokerMisconfigured):
                raise
            except Exception as error:
                self._unseen[name] += 1
                if name in self._last[1]:  # once, when it begins
                    log.warning("no figures queue=%s error=%s", name, shown(error_line(error)))
        self._last = self._clock.now(), stats

    def describe(self) -> Iterable[Metric]:
        """The names, for the registry to see that nobody else has them."""
        return self._families({}, {})

    def collect(self) -> Iterable[Metric]:
        """What was seen last, unless that is too long ago."""
        at, stats = self._last
        fresh = self._clock.now() - at <= self._patience
        return self._families(stats if fresh else {}, self._unseen.copy())

    def _families(
        self, stats: Mapping[str, QueueStats], unseen: Mapping[str, int]
    ) -> Iterable[Metric]:
        name = f"{self._prefix}_queue"
        jobs = GaugeMetricFamily(f"{name}_jobs", "Jobs, by state.", labels=["queue", "state"])
        oldest = GaugeMetricFamily(
            f"{name}_oldest_due_seconds", "For how long the oldest is due.", labels=["queue"]
        )
        archived = GaugeMetricFamily(
            f"{name}_archived_jobs", "Jobs in the archive.", labels=["queue", "reason"]
        )
        paused = GaugeMetricFamily(f"{name}_paused", "1 if paused.", labels=["queue"])
        failed = CounterMetricFamily(f"{name}_looks_failed", "Looks in vain.", labels=["queue"])
        for queue, one in stats.items():
            for state in ("ready", "delayed", "leased", "blocked"):
                jobs.add_metric([queue, state], getattr(one, state))
            oldest.add_metric([queue], one.oldest_due or 0.0)
            paused.add_metric([queue], float(one.paused))
            for reason, count in one.archived.items():
                archived.add_metric([queue, reason], count)
        for queue, times in unseen.items():
            failed.add_metric([queue], times)
        return [jobs, oldest, archived, paused, failed]


def _fate(disposition: Disposition) -> str:
    match disposition:
        case Delete():
            return "deleted"
        case Archive():
            return "archived"
        case Reschedule():
            return "rescheduled"
        case _:
            assert_never(disposition)
