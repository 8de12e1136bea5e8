"""Map a function over tuples of arguments as jobs, then gather: a StarMap.

Every call is a job of its own, run wherever there is a worker, repeated if it fails. The last job
runs once, when all others have ended, and finds their results in the order of the arguments.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

import bee_core as bee

FUNCTIONS: dict[str, Callable[..., float]] = {
    "power": lambda base, exponent: float(base**exponent),
    "divide": lambda above, below: above / below,
}


class Call(bee.Job):
    """One call: a function by its name, and its arguments."""

    function: str
    arguments: tuple[float, ...]


class Gather(bee.Job):
    """Runs when every call has ended."""

    name: str


Jobs = Call | Gather

hive = bee.Hive("memory://")
calls = hive.queue("calls", Jobs, policy=bee.Policy(keep_result=60))


@calls.on(Call)
async def call(job: Call) -> float:
    return FUNCTIONS[job.function](*job.arguments)


@calls.on(Gather)
async def gather(job: Gather, delivery: bee.Delivery[Jobs]) -> list[float | None]:
    results = await delivery.results(type=float)
    for result in results:
        if not result.ok:
            error = result.note.detail.splitlines()[-1]
            print(f"{job.name}: {result.id} {result.note.reason}: {error}")
    return [result.value if result.ok else None for result in results]


async def star_map(
    name: str, function: str, arguments: Sequence[tuple[float, ...]]
) -> list[float | None]:
    """The function of each tuple of arguments, in their order; None where it failed.

    `name` is the id of the group: who calls again while it runs waits for the same results.
    """
    jobs = [Call(function, each) for each in arguments]
    group = await calls.group(jobs, then=Gather(name), id=name)
    print(f"{name}: {len(group.children)} jobs are sent, from {group.children[0]} on")
    return await calls.result(group.id, timeout=10, type=list[float | None])


async def main() -> None:
    logging.getLogger("bee").setLevel(logging.ERROR)  # the failure is meant: no warning for it
    async with hive, hive.working():
        print(await star_map("squares", "power", [(base, 2) for base in range(1, 11)]))
        print(await star_map("parts", "divide", [(1, 2), (1, 0), (3, 4)]))


if __name__ == "__main__":
    asyncio.run(main())
