"""A plain script that leaves its work to workers in other processes, and waits for the results.

    export BEE_URL=redis://localhost
    bee worker script:hive          in one terminal, in this directory
    python script.py *.py           in another

There is no await, and no event loop to be seen: see docs/howto/sync.md.
"""

import sys
from pathlib import Path

import bee_core as bee
from bee_core import sync


class Count(bee.Job):
    path: str


hive = bee.Hive()  # where is in BEE_URL
counts = hive.queue("counts", Count, policy=bee.Policy(keep_result=3600))


@counts.handler
def count(job: Count) -> int:
    return len(Path(job.path).read_text().split())


def main(paths: list[str]) -> None:
    work = sync.of(counts)
    tickets = work.send_many(Count(path) for path in paths)
    for path, ticket in zip(paths, tickets, strict=True):
        try:
            print(f"{path}: {work.result(ticket.id, timeout=60, type=int)} words")
        except bee.JobFailed as error:
            print(f"{path}: {error.note.detail.splitlines()[-1]}")


if __name__ == "__main__":
    main(sys.argv[1:])
