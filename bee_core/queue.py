"""A typed view of one queue: jobs in, messages out.

Everything a send needs is checked and encoded here, before any I/O. No worker lives here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, Generic, TypeVar, overload

import msgspec
from typing_extensions import TypeForm

from bee_core.batches import Sending, send_again, send_in_turn, send_surely
from bee_core.broker import Broker, Inspector, Packing, Store
from bee_core.checks import MOST_HEADER_BYTES, check_draft, check_headers, check_queue
from bee_core.clock import SYSTEM_CLOCK, Clock
from bee_core.codec import KIND_HEADER, Codec, JsonCodec
from bee_core.disposition import Archive, Terminal
from bee_core.duration import Duration, seconds
from bee_core.errors import (
    DecodeError,
    IdTaken,
    InvalidOption,
    InvalidPayload,
    OutcomeUnknown,
    PayloadTooLarge,
)
from bee_core.explain import Explanation, explain
from bee_core.group import Group, not_of, plan_group
from bee_core.ids import new_id
from bee_core.job import policy_of
from bee_core.message import KEEP, NO_HEADERS, Draft, IfTaken, Sent, Ticket
from bee_core.optional import belongs_to
from bee_core.results import Result, await_end, reader
from bee_core.spread import check_together, fresh_id
from bee_core.stored import State, Stored
from bee_core.strategy import Policy, Rules, check_policy, resolve
from bee_core.tracing import Send, Tracing, traced_send

J = TypeVar("J")
T = TypeVar("T")

POLICY_HEADER = "bee-policy"
MAX_BYTES = 256 * 1024
_PAGE = 500


class Queue(Generic[J]):
    """A queue of jobs of type J: a codec, a policy and a broker."""

    def __init__(
        self,
        broker: Broker | Callable[[], Broker],
        name: str,
        form: TypeForm[J],
        *,
        policy: Policy = Policy(),
        codec: Codec[J] | None = None,
        max_bytes: int = MAX_BYTES,
        clock: Clock | Callable[[], Clock] = SYSTEM_CLOCK,
        tracing: Tracing | None = None,
    ) -> None:
        self._broker = broker
        self._clock = clock
        self.name = check_queue(name)
        self.form = form
        self.policy = check_policy(policy)
        self.codec: Codec[J] = JsonCodec(form) if codec is None else codec
        self.max_bytes = max_bytes
        self.tracing = tracing

    @property
    def broker(self) -> Broker:
        """Where the messages are."""
        return self._broker() if callable(self._broker) else self._broker

    @property
    def clock(self) -> Clock:
        """What it waits by."""
        return self._clock() if callable(self._clock) else self._clock

    async def send(
        self,
        job: J,
        *,
        id: str | None = None,
        delay: Duration = 0.0,
        at: datetime | None = None,
        priority: int = 0,
        policy: Policy | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        if_taken: IfTaken = KEEP,
        key: str | None = None,
    ) -> Ticket:
        """Send a job. When this returns, the broker has it.

        id        name it yourself to send it once only, however often you try
        delay     seconds (or timedelta) until it may run; or `at`, an aware datetime
        priority  -9 to 9, higher first
        policy    what to do with this one job; what is not set comes from class, queue and hive
        if_taken  what if the id is live: Keep(), Reject() (raises IdTaken) or Update(...)
        key       of the jobs with one key only so many run at once: one, unless the workers'
                  `throttle` says otherwise
        """
        draft = self.draft(
            job,
            id=id,
            delay=delay,
            at=at,
            priority=priority,
            policy=policy,
            headers=headers,
            if_taken=if_taken,
            key=key,
        )
        drafts, send = [draft], self._sender
        try:
            [sent] = await send(self.name, drafts)
        except OutcomeUnknown as error:
            [sent] = await send_again(drafts, partial(send, self.name, drafts), error)
        return Ticket(draft.id, sent)

    async def send_many(self, jobs: Iterable[J | Draft]) -> Sequence[Ticket]:
        """Send jobs, or drafts made with `draft`, in as few round trips as possible.

        Each batch of up to 1000 jobs or 1 MiB is stored whole or not at all.
        """
        drafts = (job if isinstance(job, Draft) else self._plain(job) for job in jobs)
        return await send_in_turn(drafts, self._pack)

    def draft(
        self,
        job: J,
        *,
        id: str | None = None,
        delay: Duration = 0.0,
        at: datetime | None = None,
        priority: int = 0,
        policy: Policy | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        if_taken: IfTaken = KEEP,
        key: str | None = None,
    ) -> Draft:
        """The message that `send` would send. Takes the same options; does no I/O."""
        body = self._encode(job)
        wait = seconds(delay, "delay") if at is None else _until(at, delay)
        if policy is not None or headers is not NO_HEADERS:
            headers = _headers(headers, policy)
        name = id if id is not None else new_id() if key is None else fresh_id(self.broker, key)
        return check_draft(Draft(name, body, wait, priority, headers, if_taken, key))

    async def group(
        self,
        jobs: Iterable[J | Draft],
        *,
        then: J,
        id: str | None = None,
        timeout: Duration | None = None,
        priority: int = 0,
        policy: Policy | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        key: str | None = None,
    ) -> Group:
        """Send many jobs, and one more that runs when each of them has ended, well or badly.

        Its handler reads with `delivery.results()` how they did. It has the group's `id` and the
        other options; they are called id/1, id/2 and so on, unless they are drafts. With a
        `timeout` it runs after that time in any case. A group that may have been sent in part is
        completed by sending it again under its id.
        """
        options = {"priority": priority, "policy": policy, "headers": headers, "key": key}
        jobs = list(jobs)
        id = fresh_id(self.broker, key) if id is None and key is not None else id
        group, drafts = plan_group(self.draft, jobs, then, id=id, timeout=timeout, options=options)
        check_together(self.broker, group.id, drafts)
        tickets = await self.send_many(drafts)
        named = {group.id, *(job.id for job in jobs if isinstance(job, Draft))}
        kept = [one.id for one in tickets if one.sent is Sent.KEPT and one.id in named]
        if others := await not_of(group, kept, self.broker, self.name):
            raise IdTaken(self.name, others)
        return group

    @overload
    async def result(self, id: str, *, timeout: Duration = 30.0) -> Any: ...
    @overload
    async def result(self, id: str, *, timeout: Duration = 30.0, type: TypeForm[T]) -> T: ...
    async def result(self, id: str, *, timeout: Duration = 30.0, type: Any = Any) -> Any:
        """Wait until a job has ended, and return what its handler returned.

        Its policy must say for how long to keep that: `keep_result`. It comes back as plain lists,
        dicts, strings and numbers, or as the `type` that is given.

        Raises JobFailed if it did not succeed, ResultTimeout if it does not end in time, and
        NoResult at once if there is nothing to wait for.
        """
        decoder, limit = reader(type), seconds(timeout, "timeout")
        end = await await_end(self.broker, self.name, id, timeout=limit, clock=self.clock)
        return Result(end, decoder).value

    async def explain(self, id: str) -> Explanation:
        """Why a job is not running, or who runs it, and what has happened to it."""
        broker = self.broker
        if not isinstance(broker, Store):
            raise InvalidOption("explain needs a broker that is an Inspector too")
        return await explain(broker, self.name, id)

    async def cancel(
        self, *ids: str, to: Terminal = Archive(), running: bool = True
    ) -> AbstractSet[str]:
        """Cancel jobs. Return the ids for which there was nothing to cancel.

        A running job is stopped when its worker next renews the lease, unless `running=False`.
        """
        return await self.broker.cancel(self.name, ids, to=to, running=running)

    async def cancel_where(
        self, predicate: Callable[[J], bool], *, to: Terminal = Archive(), running: bool = False
    ) -> Sequence[str]:
        """Cancel the jobs that the predicate picks. Return the ids of those that were.

        It reads the whole queue, page by page, while others go on with it: a job that is sent or
        repeated meanwhile may be missed. What cannot be decoded is left alone.
        """
        broker = self.broker
        if not isinstance(broker, Inspector):
            raise InvalidOption("cancel_where needs a broker that is an Inspector too")
        cancelled: list[str] = []
        # As time moves them, so that what becomes due meanwhile is met; successors before those
        # that they would follow.
        states = [State.DELAYED, State.READY, State.BLOCKED] + [State.LEASED] * running
        for state in states:
            after: str | None = None
            while True:
                page = await broker.scan(self.name, state, after=after, limit=_PAGE)
                ids = [one.id for one in page.items if self._picks(predicate, one)]
                if ids:
                    also = running and state is not State.BLOCKED
                    missed = await self.broker.cancel(self.name, ids, to=to, running=also)
                    cancelled += [id for id in ids if id not in missed]
                if (after := page.after) is None:
                    break
        return cancelled

    def _picks(self, predicate: Callable[[J], bool], stored: Stored) -> bool:
        if KIND_HEADER in stored.headers:
            return False
        try:
            job = self.decode(stored.id, stored.body)
        except DecodeError:
            return False
        return predicate(job)

    def _plain(self, job: J) -> Draft:
        """What `draft` makes of a job without options. The broker checks it, as every other."""
        return Draft(new_id(), self._encode(job))

    def _encode(self, job: J) -> bytes:
        try:
            body: Any = self.codec.encode(job)
        except InvalidPayload:
            raise
        except Exception as error:  # a codec of the user's own
            raise InvalidPayload(f"the codec refused a {type(job).__name__}: {error!r}") from error
        if not isinstance(body, bytes):
            what = type(body).__name__
            raise InvalidPayload(f"the codec made a {what} of a {type(job).__name__}, not bytes")
        if len(body) > self.max_bytes:
            raise PayloadTooLarge(
                f"a {type(job).__name__} of {len(body)} bytes; queue {self.name!r} takes at most "
                f"{self.max_bytes} (max_bytes=...). Send a reference to the data instead."
            )
        return body

    def decode(self, id: str, body: bytes) -> J:
        """The job in a message; the only exception is DecodeError, naming the message."""
        try:
            return self.codec.decode(body)
        except DecodeError as error:
            raise error.at(self.name, id) from error
        except Exception as error:  # a codec of the user's own that is not total
            raise DecodeError(f"codec failed: {error!r}", queue=self.name, id=id) from error

    def rules(self, kind: type, headers: Mapping[str, str]) -> Rules:
        """What to do with a job of that class that was sent with those headers.

        Raises DecodeError for a policy this program cannot read.
        """
        return _rules(self.policy, kind, headers.get(POLICY_HEADER))

    def _pack(self, drafts: list[Draft]) -> Sending:
        """What sends them; as much of it as can be done before is done now."""
        broker = self.broker
        packs = self.tracing is None and belongs_to(broker, "pack", "send")
        if packs and isinstance(broker, Packing):
            return partial(send_surely, drafts, broker.pack(self.name, drafts))
        return partial(send_surely, drafts, partial(self._sender, self.name, drafts))

    @property
    def _sender(self) -> Send:
        broker = self._broker() if callable(self._broker) else self._broker
        return broker.send if self.tracing is None else traced_send(self.tracing, broker.send)


@lru_cache(maxsize=4096)
def _rules(policy: Policy, kind: type, text: str | None) -> Rules:
    levels = [policy] if (own := policy_of(kind)) is None else [own, policy]
    if text is not None:
        try:
            levels.insert(0, msgspec.json.decode(text, type=Policy))
        except Exception as error:
            raise DecodeError(f"cannot read the policy it was sent with: {error}") from error
    return resolve(*levels)


def _headers(headers: Mapping[str, str], policy: Policy | None) -> Mapping[str, str]:
    check_headers(headers)
    headers = dict(headers)
    for name in headers:
        if name.startswith("bee-"):
            raise InvalidPayload(f"header {name!r}: names beginning with bee- are bee's own")
    if policy is not None:
        headers[POLICY_HEADER] = msgspec.json.encode(check_policy(policy)).decode()
    try:
        size = sum(len(name.encode()) + len(value.encode()) for name, value in headers.items())
    except UnicodeEncodeError as error:
        raise InvalidPayload(f"headers must be text that UTF-8 can hold: {error}") from error
    if size > MOST_HEADER_BYTES:
        raise InvalidPayload(f"headers of {size} bytes; at most {MOST_HEADER_BYTES}")
    return headers


def _until(at: datetime, delay: Duration) -> float:
    if delay:
        raise InvalidOption("give either delay or at, not both")
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidOption("at must be an aware datetime: say which time zone is meant")
    return seconds(max(0.0, (at - datetime.now(UTC)).total_seconds()), "at")
