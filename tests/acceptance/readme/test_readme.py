"""The README's code runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[3] / "README.md"


def test_the_first_code_block_runs_in_an_empty_folder(tmp_path: Path) -> None:
    block = re.search(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert block is not None
    script = tmp_path / "readme.py"
    script.write_text(block[1] + "\nprint(hi.read_table(ms, 'web.alerts').sort_by('id').to_pylist())\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "rows_committed=2" in done.stdout
    assert "writeid: int64" in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last == str(
        [
            {"id": 1, "msg": "hello", "continent": "Asia", "country": "India"},
            {"id": 2, "msg": "two", "continent": "Europe", "country": "France"},
            {"id": 3, "msg": "three", "continent": "Asia", "country": "Japan"},
        ]
    )
