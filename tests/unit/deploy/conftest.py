"""The files of `deploy/`, and what the metrics expose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.support.exposed import busy_metrics

ROOT = Path(__file__).parents[3]


@pytest.fixture
def deploy() -> Path:
    return ROOT / "deploy"


@pytest.fixture
def exposed(monkeypatch: pytest.MonkeyPatch) -> Iterator[CollectorRegistry]:
    with busy_metrics(monkeypatch) as registry:
        yield registry
