"""A Flask service that answers at once and leaves its slow work to workers in other processes.

    export BEE_URL=redis://localhost
    gunicorn flask_app:app
    bee worker flask_app:hive

    curl -X POST 'localhost:8000/reports/ada?pages=30'      {"id": "0199..."}
    curl 'localhost:8000/reports/0199...?wait=5'            {"report": "30 pages for ada"}

What it needs of the server and of the store is said in docs/howto/flask.md.
"""

import time

from flask import Flask, request
from flask.typing import ResponseReturnValue

import bee_core as bee
from bee_core import sync


class Report(bee.Job):
    customer: str
    pages: int = 1


hive = bee.Hive()  # where is in BEE_URL
reports = hive.queue("reports", Report, policy=bee.Policy(keep_result=3600))


@reports.handler
def build(job: Report) -> str:
    for _ in range(job.pages):
        time.sleep(0.1)  # slow work
    return f"{job.pages} pages for {job.customer}"


app = Flask(__name__)


@app.post("/reports/<customer>")
def order(customer: str) -> ResponseReturnValue:
    pages = request.args.get("pages", 1, int)
    ticket = sync.of(reports).send(Report(customer, pages))
    return {"id": ticket.id}, 202


@app.get("/reports/<id>")
def report(id: str) -> ResponseReturnValue:
    wait = request.args.get("wait", 0.0, float)
    try:
        return {"report": sync.of(reports).result(id, timeout=wait, type=str)}
    except bee.ResultTimeout:
        return {"detail": "not yet"}, 404
    except bee.NoResult:
        return {"detail": "no such report"}, 404
    except bee.JobFailed as error:
        return {"detail": error.note.reason}, 500


@app.get("/healthz")
def healthz() -> ResponseReturnValue:
    """Whether the store answers, and whether somebody works."""
    try:
        broker = sync.of(hive).broker
        stats, workers = broker.stats("reports"), broker.workers("reports")
    except bee.BrokerError as error:
        return {"detail": str(error)}, 503
    return {"waiting": stats.ready, "running": stats.leased, "workers": len(workers)}
