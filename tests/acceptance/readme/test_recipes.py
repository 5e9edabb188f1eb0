"""The code of the recipes runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

RECIPES = Path(__file__).parents[3] / "docs" / "recipes.md"


def test_the_recipes_run_in_the_order_of_the_page(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", RECIPES.read_text("utf-8"), re.DOTALL)
    assert len(blocks) >= 7
    script = tmp_path / "recipes.py"
    end = (
        "print(sorted(hi.read_table(ms, 'web.orders', columns=['id'], where=\"day < '2026-11-03'\")['id'].to_pylist()))"
    )
    script.write_text("\n".join([*blocks, end]), "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[1, 2, 3, 7]"
