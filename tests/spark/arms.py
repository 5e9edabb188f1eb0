"""Fault points of Python tasks, armed by whoever runs the driver."""

from __future__ import annotations

from pathlib import Path

from tests.spark.armed_daemon import ENVIRONMENT
from tests.spark.installation import ROOT


class Arms:
    """A folder that Python workers look into at each fault point."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder

    @property
    def conf(self) -> dict[str, str]:
        """Settings of Spark, for workers that read them here."""
        return {
            "spark.python.daemon.module": "tests.spark.armed_daemon",
            f"spark.executorEnv.{ENVIRONMENT}": str(self._folder),
            "spark.executorEnv.PYTHONPATH": str(ROOT),
        }

    @property
    def environ(self) -> dict[str, str]:
        """Environment of the driver, whose JVM runs the tasks in local mode."""
        return {ENVIRONMENT: str(self._folder)}

    def arm(self, point: str, action: str) -> None:
        """For the next task that comes there."""
        (self._folder / f"{point}.hit").unlink(missing_ok=True)
        hidden = self._folder / f".{point}"
        hidden.write_text(action)
        hidden.rename(self._folder / point)

    def is_hit(self, point: str) -> bool:
        return (self._folder / f"{point}.hit").exists()

    def wake(self, point: str) -> None:
        (self._folder / f"{point}.wake").touch()
