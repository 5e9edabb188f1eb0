"""The code of the recipes runs as it stands."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.readme.pages import output_of, python_blocks


def test_the_recipes_run_in_the_order_of_the_page(tmp_path: Path) -> None:
    blocks = python_blocks("docs/recipes.md")
    assert len(blocks) >= 7
    end = (
        "print(sorted(hi.read_table(ms, 'web.orders', columns=['id'], where=\"day < '2026-11-03'\")['id'].to_pylist()))"
    )
    assert output_of([*blocks, end], tmp_path).splitlines()[-1] == "[1, 2, 3, 7]"
