"""A Django project in one file, that sends without await: `python -m tests.sync.django_shop`.

DATABASE_URL names the PostgreSQL that holds its orders, BEE_URL the store of its jobs.
Prints what became of each order, for `test_django.py`.
"""

from __future__ import annotations

import json
import os
from functools import partial
from typing import Any

import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

address = conninfo_to_dict(os.environ["DATABASE_URL"])
settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="not so secret",
    USE_TZ=True,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": address["dbname"],
            "USER": address.get("user", ""),
            "HOST": address.get("host", ""),
            "PORT": address.get("port", ""),
        }
    },
)
django.setup()

from django.db import connection, models, transaction  # noqa: E402
from django.http import HttpRequest, JsonResponse  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import path  # noqa: E402

import bee_core as bee  # noqa: E402
from bee_core import sync  # noqa: E402
from bee_pg import sending  # noqa: E402


class Order(models.Model):  # type: ignore[misc]
    class Meta:
        app_label = "shop"


class Confirm(bee.Job):
    order: int


hive = bee.Hive(os.environ["BEE_URL"])
mail = hive.queue("mail", Confirm)
confirmed: list[int] = []


@mail.handler
def confirm(job: Confirm) -> None:
    assert Order.objects.filter(id=job.order).exists()
    confirmed.append(job.order)
    connection.close()


def order_then_send(paid: bool) -> int:
    with transaction.atomic():
        order = Order.objects.create()
        transaction.on_commit(partial(sync.of(mail).send, Confirm(order.id)))
        if not paid:
            raise ValueError("not paid")
    return int(order.id)


def order_and_send(paid: bool) -> int:
    with transaction.atomic():
        order = Order.objects.create()
        sending(connection).send(mail, Confirm(order.id))
        if not paid:
            raise ValueError("not paid")
    return int(order.id)


def order(request: HttpRequest, how: str, paid: int) -> JsonResponse:
    """POST places an order in one of the two ways."""
    place = order_then_send if how == "then" else order_and_send
    try:
        return JsonResponse({"order": place(bool(paid))}, status=201)
    except ValueError:
        return JsonResponse({"detail": "not paid"}, status=402)


urlpatterns = [path("orders/<how>/<int:paid>", order)]


def main() -> None:
    with connection.schema_editor() as editor:
        editor.create_model(Order)
    sync.of(hive).broker.queues()  # bee's tables are made
    client = Client()
    answers: dict[str, Any] = {}
    ways = ["then", "and"] if os.environ["BEE_URL"].startswith("postgresql") else ["then"]
    for way in ways:
        for paid in (1, 0):
            answer = client.post(f"/orders/{way}/{paid}")
            answers[f"{way} {paid}"] = answer.status_code, answer.json()
    answers["waiting"] = sync.of(hive).broker.stats("mail").ready
    sync.of(hive).run(until_empty=True)
    answers["confirmed"] = confirmed
    print(json.dumps(answers))  # noqa: T201


if __name__ == "__main__":
    main()
