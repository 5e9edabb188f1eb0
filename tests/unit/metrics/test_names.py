"""The names of the package, and that prometheus_client is loaded with `Metrics` and not before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hive_ingest import metrics


def test_every_public_name_can_be_imported() -> None:
    for name in metrics.__all__:
        assert getattr(metrics, name).__name__ == name
        assert name in dir(metrics)


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'hive_ingest\.metrics' has no attribute 'Meters'"):
        metrics.Meters  # noqa: B018


def test_the_limits_need_no_prometheus_client() -> None:
    code = "import sys, hive_ingest.metrics; print({'prometheus_client', 'kafka', 'http.server'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"
