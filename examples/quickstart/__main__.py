"""Run as `python -m examples.quickstart [kafka] [folder] [--no-spark]`. Exit code 1 when a check fails."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from examples.quickstart.jobs import FilesJob, SparkJob
from examples.quickstart.places import ROOT
from examples.quickstart.story import Story


def main(arguments: list[str] | None = None) -> int:
    """Run the whole story. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/quickstart", description=__doc__)
    default = ROOT / "demo" / "quickstart"
    parser.add_argument("folder", nargs="?", type=Path, default=default, help="removed and created again")
    parser.add_argument("--no-spark", action="store_true", help="the same flights, from files, without Spark")
    arguments = sys.argv[1:] if arguments is None else arguments
    is_kafka = arguments[:1] == ["kafka"]
    chosen = parser.parse_args(arguments[1:] if is_kafka else arguments)
    folder = chosen.folder.absolute()
    if is_kafka:
        from examples.quickstart.kafka_story import KafkaStory

        return KafkaStory(folder).run()
    return Story(folder, FilesJob() if chosen.no_spark else SparkJob()).run()


if __name__ == "__main__":
    sys.exit(main())
