"""The program of the README: a job, its queue, its handler; sent and run in one place."""

import asyncio

import bee_core as bee


class Greet(bee.Job):
    name: str


hive = bee.Hive()  # BEE_URL, or url in bee.toml, or memory://
greetings = hive.queue("greetings", Greet)


@greetings.handler
async def greet(job: Greet) -> None:
    print(f"hello {job.name}")


async def main() -> None:
    async with hive:
        await greetings.send(Greet(name="Ada"))
        await hive.run(until_empty=True)


if __name__ == "__main__":
    asyncio.run(main())
