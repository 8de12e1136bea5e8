"""A Django service that answers at once and does its slow work in jobs, in its own process.

    BEE_URL=redis://localhost uvicorn django_app:application

    curl -X POST 'localhost:8000/reports/ada?pages=30'      {"id": "0199..."}
    curl 'localhost:8000/reports/0199...?wait=5'            {"report": "30 pages for ada"}

All in one file here; docs/howto/django.md says what goes where in a project, and how to run the
same jobs in processes of their own.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path

import bee_core as bee

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY=os.urandom(32).hex())


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


async def report(request: HttpRequest, name: str) -> JsonResponse:
    """POST orders a report for a customer; GET asks for it by its id."""
    if request.method == "POST":
        ticket = await reports.send(Report(name, pages=int(request.GET.get("pages", 1))))
        return JsonResponse({"id": ticket.id}, status=202)
    wait = float(request.GET.get("wait", 0))
    try:
        return JsonResponse({"report": await reports.result(name, timeout=wait, type=str)})
    except bee.ResultTimeout:
        return JsonResponse({"detail": "not yet"}, status=404)
    except bee.NoResult:
        return JsonResponse({"detail": "no such report"}, status=404)
    except bee.JobFailed as error:
        return JsonResponse({"detail": error.note.reason}, status=500)


async def healthz(request: HttpRequest) -> JsonResponse:
    """Whether jobs are taken here, and whether the store answers."""
    if not hive.health().ready:
        return JsonResponse({"detail": "no worker takes jobs here"}, status=503)
    try:
        stats = await hive.broker.stats("reports")
    except bee.BrokerError as error:
        return JsonResponse({"detail": str(error)}, status=503)
    return JsonResponse({"waiting": stats.ready, "running": stats.leased})


urlpatterns = [path("reports/<name>", report), path("healthz", healthz)]
django = get_asgi_application()


async def application(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Django, and the hive that works while it serves: Django knows no lifespan of its own."""
    if scope["type"] != "lifespan":
        await django(scope, receive, send)
        return
    stage = "startup"
    await receive()
    try:
        async with hive, hive.working():
            await send({"type": "lifespan.startup.complete"})
            stage = "shutdown"
            await receive()
    except Exception as error:  # an answer, or the server would go on without the hive
        await send({"type": f"lifespan.{stage}.failed", "message": repr(error)})
    else:
        await send({"type": "lifespan.shutdown.complete"})
