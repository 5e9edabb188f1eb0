"""Metrics for Prometheus, and a health check, of all that this process writes (`pip install 'hive-ingest[metrics]'`).

    from hive_ingest.metrics import Metrics

    metrics = Metrics()
    metrics.serve(9400)     # http://127.0.0.1:9400/metrics and /health

`Metrics` is loaded when it is asked for (PEP 562), and prometheus_client with it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hive_ingest.metrics.health import Health, HealthLimits, Problem

if TYPE_CHECKING:
    from hive_ingest.metrics.process_metrics import Metrics
    from hive_ingest.metrics.server import MetricsServer

__all__ = ["Health", "HealthLimits", "Metrics", "MetricsServer", "Problem"]

_MODULES = {"Metrics": "process_metrics", "MetricsServer": "server"}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        raise ImportError("metrics need the package prometheus-client: pip install 'hive-ingest[metrics]'") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
