"""The conformance suite: what passes it is a Broker, what does not is none.

One test for every sentence of `bee_core.broker`, for third parties too. With pytest and
pytest-asyncio (`asyncio_mode = "auto"`) all it takes is a subclass:

    class TestMyBroker(BrokerConformance):
        @asynccontextmanager
        async def harness(self) -> AsyncIterator[Harness]:
            async with MyBroker(...) as broker:
                yield MyHarness(broker)

For readable failures put this into conftest.py, before the suite is imported:

    pytest.register_assert_rewrite("bee_core.testing.conformance")

The suite imports no test runner and no backend; every test is an async method without
arguments whose name begins with `test_`. Not covered, because they need a broken network:
that every call ends within its deadline, and which errors trouble turns into.
"""

from bee_core.testing.conformance.adopt import Adopting
from bee_core.testing.conformance.adopt_manners import AdoptingManners
from bee_core.testing.conformance.adopt_reports import AdoptedReports
from bee_core.testing.conformance.announce import Announcing
from bee_core.testing.conformance.archive import Archiving
from bee_core.testing.conformance.awaits import Awaiting
from bee_core.testing.conformance.cancel import Cancelling
from bee_core.testing.conformance.closing import Closing
from bee_core.testing.conformance.created import Created
from bee_core.testing.conformance.expel import Expelling
from bee_core.testing.conformance.expel_together import ExpellingTogether
from bee_core.testing.conformance.extend import Extending
from bee_core.testing.conformance.guards import Guards
from bee_core.testing.conformance.harness import Harness
from bee_core.testing.conformance.heard import Heard
from bee_core.testing.conformance.history import History
from bee_core.testing.conformance.identity import Identity
from bee_core.testing.conformance.inspect import Inspecting
from bee_core.testing.conformance.interrupt import Interrupted
from bee_core.testing.conformance.keys import Keyed
from bee_core.testing.conformance.lease import Leasing
from bee_core.testing.conformance.merge import Merged
from bee_core.testing.conformance.operate import Operating
from bee_core.testing.conformance.order import Ordering
from bee_core.testing.conformance.parked import PassedOver
from bee_core.testing.conformance.progress import Progress
from bee_core.testing.conformance.remarks import Remarks
from bee_core.testing.conformance.reports import Reporting
from bee_core.testing.conformance.results import Results
from bee_core.testing.conformance.scan import Scanning
from bee_core.testing.conformance.send import Sending
from bee_core.testing.conformance.settle import Settling
from bee_core.testing.conformance.spread import left_out
from bee_core.testing.conformance.successor import Blocked, Released
from bee_core.testing.conformance.then import Following
from bee_core.testing.conformance.throttle import Throttled
from bee_core.testing.conformance.together import Together
from bee_core.testing.conformance.turns import Crowded, Turns
from bee_core.testing.conformance.waiting import Waiting

__all__ = ["BrokerConformance", "Harness", "SpreadConformance"]


class BrokerConformance(
    Sending,
    Ordering,
    Leasing,
    Extending,
    Settling,
    Following,
    Keyed,
    Turns,
    Crowded,
    PassedOver,
    Throttled,
    Reporting,
    Heard,
    Awaiting,
    Results,
    Progress,
    History,
    Remarks,
    Announcing,
    Created,
    Identity,
    Blocked,
    Released,
    Merged,
    Cancelling,
    Archiving,
    Inspecting,
    Scanning,
    Operating,
    Adopting,
    AdoptingManners,
    AdoptedReports,
    Expelling,
    ExpellingTogether,
    Waiting,
    Together,
    Interrupted,
    Guards,
    Closing,
):
    """The whole contract. Subclass it and say how to get a `harness`."""


class SpreadConformance(BrokerConformance):
    """What is left of it for a store that spreads each queue over parts: see `spread.py`."""


for _name in left_out():
    setattr(SpreadConformance, _name, None)
