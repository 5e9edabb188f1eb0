"""The benchmarks' input: events of five fields, the same for the same count, as JSON lines, delimited text and CSV."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

COLUMNS = {"id": "bigint", "user": "string", "msg": "string", "value": "double", "country": "string"}
COUNTRIES = 50
_WORDS = ("alpha", "beta", "gamma", "disk", "cpu", "memory", "net", "error", "warning", "timeout", "retry", "login")


def make_quoted(source: Path) -> Path:
    """Write the delimited text as CSV once, with quotes and delimiters in each `msg`; returns its path."""
    path = source.with_suffix(".quoted.csv")
    if not path.exists():
        with source.open() as lines, path.with_suffix(".part").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            for id_, user, msg, value, country in csv.reader(lines):
                writer.writerow([id_, user, msg.replace(" ", ", ", 1).replace("#", '"') + '"', value, country])
        path.with_suffix(".part").rename(path)
    return path


def make_input(folder: Path, rows: int) -> tuple[Path, Path]:
    """Write `events.<rows>.json` and `.csv` once; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    as_json, as_text = folder / f"events.{rows}.json", folder / f"events.{rows}.csv"
    if as_json.exists() and as_text.exists():
        return as_json, as_text
    rng = random.Random(20)
    with (
        as_json.with_suffix(".part").open("w") as json_file,
        as_text.with_suffix(".part2").open("w") as text_file,
    ):
        for i in range(rows):
            user = f"user{rng.randrange(20_000):05d}"
            msg = " ".join(rng.choices(_WORDS, k=6)) + f" #{rng.randrange(10**6)}"
            value, country = round(rng.random() * 1000, 4), f"C{rng.randrange(COUNTRIES):02d}"
            record = {"id": i, "user": user, "msg": msg, "value": value, "country": country}
            json_file.write(json.dumps(record, separators=(",", ":")) + "\n")
            text_file.write(f"{i},{user},{msg},{value},{country}\n")
    as_json.with_suffix(".part").rename(as_json)
    as_text.with_suffix(".part2").rename(as_text)
    return as_json, as_text
