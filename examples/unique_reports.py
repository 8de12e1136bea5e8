"""One report per customer, however many changes come in: an id, and `Update`.

While the report waits, a further change replaces it. While it runs, the change waits as its
one successor, and runs when the report has ended.
"""

import asyncio

import bee_core as bee


class BuildReport(bee.Job):
    customer: str
    reason: str


hive = bee.Hive("memory://")
reports = hive.queue("reports", BuildReport)
running = asyncio.Event()
finish = asyncio.Event()
built_last = asyncio.Event()


@reports.handler
async def build(job: BuildReport) -> None:
    print(f"  building for {job.customer}: {job.reason}")
    running.set()
    await finish.wait()
    print(f"  built for {job.customer}: {job.reason}")
    if job.reason.startswith("last"):
        built_last.set()


async def changed(customer: str, reason: str, *, delay: float = 0.0) -> None:
    ticket = await reports.send(
        BuildReport(customer, reason),
        id=f"report-{customer}",
        delay=delay,
        if_taken=bee.Update(),
    )
    print(f"{reason}: {ticket.sent.value}")


async def main() -> None:
    async with hive:
        await changed("ada", "first order", delay=0.3)
        await changed("ada", "second order", delay=0.3)
        await changed("ada", "third order", delay=0.1)

        async with hive.working():
            await running.wait()
            await changed("ada", "order while it runs")
            await changed("ada", "last order while it runs")

            finish.set()
            await built_last.wait()


asyncio.run(main())
