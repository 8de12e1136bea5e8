"""A FastAPI service that answers at once and does its slow work in jobs, in its own process.

    BEE_URL=redis://localhost uvicorn fastapi_app:app

    curl -X POST 'localhost:8000/reports/ada?pages=30'      {"id": "0199..."}
    curl 'localhost:8000/reports/0199...?wait=5'            {"report": "30 pages for ada"}

The same jobs can be run by processes of their own: see docs/howto/fastapi.md.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException

import bee_core as bee


class Report(bee.Job):
    customer: str
    pages: int = 1


hive = bee.Hive(grace=float(os.environ.get("GRACE", 20)))  # where is in BEE_URL
reports = hive.queue("reports", Report, policy=bee.Policy(keep_result=3600))


@reports.handler
async def build(job: Report) -> str:
    for _ in range(job.pages):
        await asyncio.sleep(0.1)  # slow work
    return f"{job.pages} pages for {job.customer}"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The hive works while the service serves; leaving lets the running jobs end."""
    async with hive, hive.working():
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/reports/{customer}", status_code=202)
async def order(customer: str, pages: int = 1) -> dict[str, str]:
    ticket = await reports.send(Report(customer, pages))
    return {"id": ticket.id}


@app.get("/reports/{id}")
async def report(id: str, wait: float = 0) -> dict[str, str]:
    try:
        return {"report": await reports.result(id, timeout=wait, type=str)}
    except bee.ResultTimeout as error:
        raise HTTPException(404, "not yet") from error
    except bee.NoResult as error:
        raise HTTPException(404, "no such report") from error
    except bee.JobFailed as error:
        raise HTTPException(500, error.note.reason) from error


@app.get("/healthz")
async def healthz() -> dict[str, int]:
    """Whether jobs are taken here, and whether the store answers."""
    if not hive.health().ready:
        raise HTTPException(503, "no worker takes jobs here")
    try:
        stats = await hive.broker.stats("reports")
    except bee.BrokerError as error:
        raise HTTPException(503, str(error)) from error
    return {"waiting": stats.ready, "running": stats.leased}
