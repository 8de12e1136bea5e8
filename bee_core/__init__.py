"""bee: typed jobs in memory, on Redis and on PostgreSQL. `import bee_core as bee`."""

from bee_core.auto import Auto
from bee_core.broker import Broker, Described, Examined, Inspector, Store
from bee_core.codec import Codec, JsonCodec
from bee_core.decide import decide
from bee_core.delivery import Delivery, Handler
from bee_core.disposition import Archive, Delete, Disposition, Reschedule, Terminal
from bee_core.duration import Duration
from bee_core.errors import (
    BeeError,
    BrokerClosed,
    BrokerError,
    BrokerFull,
    BrokerLocked,
    BrokerMisconfigured,
    BrokerUnavailable,
    DecodeError,
    IdTaken,
    InvalidInput,
    InvalidName,
    InvalidOption,
    InvalidPayload,
    JobFailed,
    MustAwait,
    NoHandler,
    NoResult,
    OutcomeUnknown,
    PayloadTooLarge,
    PermanentError,
    ResultTimeout,
    SchemaMismatch,
    SchemaMissing,
    UnknownJob,
    UnknownScheme,
    WorkerStuck,
)
from bee_core.events import Event, Observer
from bee_core.explain import Explanation, explain
from bee_core.group import Group
from bee_core.handlers import Failure
from bee_core.health import Health, QueueHealth
from bee_core.hive import Hive
from bee_core.hive_queue import HiveQueue
from bee_core.ids import new_id
from bee_core.job import Job
from bee_core.journal import log_events
from bee_core.message import (
    Counters,
    Draft,
    Keep,
    Lease,
    Note,
    Rate,
    Receipt,
    Reject,
    Report,
    Sent,
    Settlement,
    Throttle,
    Ticket,
    Update,
)
from bee_core.meter import Meter, Reading
from bee_core.outcome import Outcome, Retry, Snooze
from bee_core.queue import Queue
from bee_core.registry import connect
from bee_core.results import Result
from bee_core.schedule import Schedule
from bee_core.stored import Episode, Finding, Holder, QueueStats, Server, State, Stored
from bee_core.strategy import (
    ArchiveStrategy,
    Backoff,
    ErrorStrategy,
    InterruptStrategy,
    Policy,
    Repeat,
    Rules,
    StallStrategy,
    TimeoutStrategy,
)
from bee_core.worker import Worker

__all__ = [
    "Archive",
    "ArchiveStrategy",
    "Auto",
    "Backoff",
    "BeeError",
    "Broker",
    "BrokerClosed",
    "BrokerError",
    "BrokerFull",
    "BrokerLocked",
    "BrokerMisconfigured",
    "BrokerUnavailable",
    "Codec",
    "Counters",
    "DecodeError",
    "Delete",
    "Delivery",
    "Described",
    "Disposition",
    "Draft",
    "Duration",
    "Episode",
    "ErrorStrategy",
    "Event",
    "Examined",
    "Explanation",
    "Failure",
    "Finding",
    "Group",
    "Handler",
    "Health",
    "Hive",
    "HiveQueue",
    "Holder",
    "IdTaken",
    "Inspector",
    "InterruptStrategy",
    "InvalidInput",
    "InvalidName",
    "InvalidOption",
    "InvalidPayload",
    "Job",
    "JobFailed",
    "JsonCodec",
    "Keep",
    "Lease",
    "Meter",
    "MustAwait",
    "NoHandler",
    "NoResult",
    "Note",
    "Observer",
    "Outcome",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "PermanentError",
    "Policy",
    "Queue",
    "QueueHealth",
    "QueueStats",
    "Rate",
    "Reading",
    "Receipt",
    "Reject",
    "Repeat",
    "Report",
    "Reschedule",
    "Result",
    "ResultTimeout",
    "Retry",
    "Rules",
    "Schedule",
    "SchemaMismatch",
    "SchemaMissing",
    "Sent",
    "Server",
    "Settlement",
    "Snooze",
    "StallStrategy",
    "State",
    "Store",
    "Stored",
    "Terminal",
    "Throttle",
    "Ticket",
    "TimeoutStrategy",
    "UnknownJob",
    "UnknownScheme",
    "Update",
    "Worker",
    "WorkerStuck",
    "connect",
    "decide",
    "explain",
    "log_events",
    "new_id",
]
