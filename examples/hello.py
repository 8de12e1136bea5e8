"""Two kinds of jobs on one queue, one of them a moment later."""

import asyncio

import bee_core as bee


class Greet(bee.Job):
    name: str


class Resize(bee.Job, tag="resize.v2"):
    path: str
    width: int = 200


Jobs = Greet | Resize

hive = bee.Hive()  # BEE_URL, or url in bee.toml, or memory://
work = hive.queue("work", Jobs, policy=bee.Policy(timeout=30, on_error=bee.Repeat(3)))


@work.handler
async def handle(job: Jobs, delivery: bee.Delivery[Jobs]) -> None:
    match job:
        case Greet(name=name):
            print(f"hello {name}")
        case Resize(path=path, width=width):
            print(f"{path} at {width}, attempt {delivery.attempt}")


async def main() -> None:
    async with hive:
        await work.send(Greet(name="Ada"))
        await work.send(Resize(path="x.png"), delay=0.1, id="x.png")
        await hive.run(until_empty=True)


if __name__ == "__main__":
    asyncio.run(main())
