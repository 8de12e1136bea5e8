"""Make `top.svg`: what `bee top` shows of a small shop at work, as a picture.

Give it the URL of an empty Redis or PostgreSQL: python docs/pictures/make_top.py redis://localhost
It works on jobs itself, starts `bee top` on a terminal of its own, and draws what that showed last.
"""

from __future__ import annotations

import asyncio
import os
import pty
import re
import struct
import subprocess
import sys
from fcntl import ioctl
from html import escape
from pathlib import Path
from termios import TIOCSWINSZ

import bee_core as bee

COLUMNS, LINES = 112, 30
LETTER, LINE, MARGIN = 7.6, 18, 18
STYLES = {"1": "title", "2": "head", "31": "bad", "33": "paused"}
CSS = """
text { font: 12.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328 }
.card { fill: #f6f8fa; stroke: #d0d7de }
.title { font-weight: 700 } .head { fill: #59636e } .bad { fill: #c0202a } .paused { fill: #8a5a00 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .card { fill: #0d1117; stroke: #3d444d }
  .head { fill: #9198a1 } .bad { fill: #ff7b72 } .paused { fill: #e3b341 }
}
"""


class SendEmail(bee.Job):
    to: str


class Encode(bee.Job):
    film: str


class Charge(bee.Job):
    account: str


Jobs = SendEmail | Encode | Charge


def shop(url: str) -> bee.Hive:
    hive = bee.Hive(url, observers=())
    mail = hive.queue("mail", Jobs, concurrency=4, policy=bee.Policy(on_error=bee.Archive()))
    films = hive.queue("films", Jobs, concurrency=3)
    hive.queue("charges", Jobs)

    @mail.handler
    async def send(job: Jobs) -> None:
        await asyncio.sleep(0.04)
        match job:
            case SendEmail(to="nobody"):
                raise ConnectionRefusedError("smtp.example.org:587 refused the connection")
            case SendEmail(to=""):
                raise ValueError("an e-mail needs an address")

    @films.handler
    async def encode(job: Jobs, delivery: bee.Delivery[Jobs]) -> None:
        for minute in range(1, 91):
            delivery.progress(f"minute {minute} of 90")
            await asyncio.sleep(0.3)

    return hive


async def fill(hive: bee.Hive) -> None:
    mail, films, charges = hive.queues.values()
    await films.send_many([films.draft(Encode(name), id=name) for name in FILMS])
    await charges.send_many([Charge(f"account {number}") for number in range(12)])
    await mail.send(SendEmail("nobody"), id="order-4711")
    await mail.send(SendEmail(""), id="order-4712")
    await mail.send_many([SendEmail("ada")] * 900)
    for number in range(6):
        await mail.send(SendEmail("ada"), delay=3600 + number)
    await hive.broker.pause("charges")


FILMS = ["metropolis", "nosferatu", "sunrise", "the-general", "safety-last"]


async def main(url: str, picture: Path) -> None:
    hive = shop(url)
    async with hive:
        await fill(hive)
        async with hive.working():
            shown = await watch(url, hive)
            hive.stop(grace=0)
    picture.write_text(svg(last_frame(shown)), encoding="utf-8")


async def watch(url: str, hive: bee.Hive) -> str:
    """What `bee top` writes to a terminal in some seconds, while jobs come and go."""
    master, slave = pty.openpty()
    ioctl(slave, TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    command = [sys.executable, "-m", "bee_core.cli", "top", "--url", url]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    for _ in range(14):
        await hive.queues["mail"].send_many([SendEmail("ada")] * 30)
        await asyncio.sleep(0.5)
    os.write(master, b"q")
    shown = b""
    try:
        while data := await asyncio.to_thread(os.read, master, 65536):
            shown += data
    except OSError:  # Linux says EIO when the other side is closed
        pass
    process.wait()
    return shown.decode()


def last_frame(shown: str) -> list[tuple[str, str]]:
    """The lines of the last whole screen, each with its style."""
    frame = [part for part in shown.split("\x1b[H") if "\x1b[J" in part][-1]
    found = []
    for line in frame.partition("\x1b[J")[0].split("\n"):
        code = re.search(r"\x1b\[(\d+)m", line)
        style = STYLES.get(code[1], "") if code else ""
        found.append((re.sub(r"\x1b\[[0-9;]*[A-Za-z]|\r", "", line), style))
    return found


def svg(lines: list[tuple[str, str]]) -> str:
    width, height = COLUMNS * LETTER + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    drawn = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + LINE * number + 13}" class="{style}" '
        f'textLength="{len(text) * LETTER:.1f}" xml:space="preserve">{escape(text)}</text>'
        for number, (text, style) in enumerate(lines)
        if text
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" height="{height}" role="img" aria-label="bee top">\n'
        f"<style>{CSS}</style>\n"
        f'<rect class="card" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>'
        f"\n{drawn}\n</svg>\n"
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(__file__).with_name("top.svg")))
