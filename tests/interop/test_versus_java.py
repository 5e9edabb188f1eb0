"""The benchmark against Java runs with Python and pip alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_benchmark_reports_a_rate_for_java_and_one_for_us(tmp_path: Path) -> None:
    options = ["--rows", "5000", "--repeats", "1", "--cases", "small_commits", "--cache", str(tmp_path)]
    run = subprocess.run(
        [sys.executable, "benchmarks/versus_java.py", *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert re.search(
        r"^small_commits +commits/s +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+\.\.[\d.]+ +4 ", run.stdout, re.MULTILINE
    )
    assert run.stdout.count("s of processor time\n") == 3
