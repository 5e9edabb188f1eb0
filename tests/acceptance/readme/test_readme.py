"""The README's code runs as it stands."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.readme.pages import output_of, python_blocks


def test_the_first_code_block_runs_in_an_empty_folder(tmp_path: Path) -> None:
    block = python_blocks("README.md")[0]
    output = output_of([block, "print(hi.read_table(ms, 'web.alerts').sort_by('id').to_pylist())"], tmp_path)
    assert "rows_committed=2" in output
    assert "writeid: int64" in output
    assert output.splitlines()[-1] == str(
        [
            {"id": 1, "msg": "hello", "continent": "Asia", "country": "India"},
            {"id": 2, "msg": "two", "continent": "Europe", "country": "France"},
            {"id": 3, "msg": "three", "continent": "Asia", "country": "Japan"},
        ]
    )
