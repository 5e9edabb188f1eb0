"""The options of long-running commands that serve metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from hive_ingest.cli.failures import CommandFailed
from hive_ingest.cli.logs import say

if TYPE_CHECKING:
    from hive_ingest.metastore_client import MetastoreClient
    from hive_ingest.metrics import HealthLimits, Metrics

MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="PORT",
        min=0,
        max=65535,
        envvar="HIVE_INGEST_METRICS_PORT",
        show_default=False,
        help="Serve /metrics for Prometheus, and /health, on this port; 0 takes a free one.",
    ),
]
MetricsHostOption = Annotated[
    str,
    typer.Option(
        "--metrics-host",
        metavar="ADDRESS",
        envvar="HIVE_INGEST_METRICS_HOST",
        help="The address to serve them on; 0.0.0.0 stands for all addresses of this machine.",
    ),
]
MaxCommitAgeOption = Annotated[
    float | None,
    typer.Option(
        "--max-commit-age-seconds",
        metavar="N",
        min=0.001,
        show_default=False,
        help="/health fails if there was no commit for this time, although there are messages to commit.",
    ),
]


@contextmanager
def served_metrics(
    port: int | None, host: str, limits: HealthLimits | None = None, *, metastore: MetastoreClient | None = None
) -> Iterator[Metrics | None]:
    """Count and serve until the block is left. Yields None without a port.

    Args:
        port: Of `--metrics-port`.
        host: Of `--metrics-host`.
        limits: When `/health` reports a problem.
        metastore: A metastore whose queue and transactions are shown as well.

    Raises:
        CommandFailed: prometheus_client is not installed.
        ConfigurationError: The address cannot be listened on.
    """
    if port is None:
        yield None
        return
    try:
        from hive_ingest.metrics import Metrics
    except ImportError as error:
        raise CommandFailed(f"--metrics-port: {error}") from error
    with Metrics(limits=limits, metastore=metastore) as metrics:
        say(f"metrics at {metrics.serve(port, host).url}/metrics")
        yield metrics
