"""A small asyncio service that does its slow work in jobs, in its own process.

The server answers at once; `hive.working()` runs the jobs beside it. Leaving the block takes no
more jobs, lets the running ones end, and gives back what does not end in time.
"""

import asyncio
import queue
import threading

import bee_core as bee


class Shout(bee.Job):
    text: str


hive = bee.Hive("memory://", grace=10)
voice = hive.queue("voice", Shout, concurrency=2)
started: queue.SimpleQueue[str] = queue.SimpleQueue()
shouted: list[str] = []
breath = threading.Event()


@voice.handler
def shout(job: Shout) -> None:  # a plain function runs in a thread, beside the event loop
    started.put(job.text)
    breath.wait()
    shouted.append(job.text.upper())


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Each line becomes a job; the line itself is the id, so that a repeated line is one job."""
    async for line in reader:
        text = line.decode().strip()
        ticket = await voice.send(Shout(text), id=text)
        writer.write(f"{ticket.sent.value} {text}\n".encode())
        await writer.drain()
    writer.close()


async def call(port: int, *lines: str) -> None:
    """A client of the service."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for line in lines:
        writer.write(line.encode() + b"\n")
        print((await reader.readline()).decode().strip())
    writer.close()
    await writer.wait_closed()


async def main() -> None:
    async with hive:
        async with hive.working():
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            async with server:
                await call(server.sockets[0].getsockname()[1], "hello", "hello", "good night")
            for _ in range(2):
                await asyncio.to_thread(started.get)
            print("two jobs run while the service shuts down")
            asyncio.get_running_loop().call_later(0.2, breath.set)
        print("they were let to end:", sorted(shouted))
        print("nothing is left:", (await hive.broker.stats("voice")).live == 0)


asyncio.run(main())
