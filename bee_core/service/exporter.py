"""Metrics over HTTP, for Prometheus to scrape: bee's own, of one process or of several."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, start_http_server

from bee_core.events import log
from bee_core.prometheus import PrometheusObserver


def serve_metrics(host: str, port: int) -> PrometheusObserver:
    """Serve, from a thread of its own until the process ends; return who counts.

    Port 0 is any that is free; the log says which. Raises OSError.
    """
    registry = CollectorRegistry()
    observer = PrometheusObserver(registry=registry)
    server, _ = start_http_server(port, addr=host, registry=registry)
    log.info(
        "metrics at http://%s:%d/metrics", f"[{host}]" if ":" in host else host, server.server_port
    )
    return observer
