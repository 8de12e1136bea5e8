"""What ships for tests: a clock that is moved, a hive under test, faults, and proofs of a broker.

`ManualClock`, `running` and `FaultyBroker` are here; the suite that proves a broker is in
`bee_core.testing.conformance`, the model test in `bee_core.testing.model`, the judge of what many
processes have recorded in `bee_core.testing.history`; the pytest fixtures are in
`bee_core.testing.plugin`.
"""

from bee_core.testing.clock import ManualClock
from bee_core.testing.faults import FaultyBroker, Gate
from bee_core.testing.hive import ArchivedJob, HiveUnderTest, running

__all__ = ["ArchivedJob", "FaultyBroker", "Gate", "HiveUnderTest", "ManualClock", "running"]
