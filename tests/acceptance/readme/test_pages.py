"""The code of these pages runs as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.readme.pages import output_of, output_of_shell, python_blocks, shell_blocks


@pytest.mark.parametrize(("page", "blocks"), [("docs/from-java.md", 2), ("docs/threads.md", 5), ("docs/errors.md", 1)])
def test_the_code_of_a_page_runs_in_an_empty_folder(tmp_path: Path, page: str, blocks: int) -> None:
    found = python_blocks(page)
    assert len(found) == blocks
    output_of(found, tmp_path)


def test_the_commands_of_the_page_of_files_run_in_an_empty_folder(tmp_path: Path) -> None:
    commands = shell_blocks("docs/files.md")
    assert len(commands) == 5
    output = output_of_shell(commands, tmp_path)
    for expected in (
        "shop.sales: would get 2 rows in 1 transaction",
        "shop.sales: nothing to do, everything is committed already: 1 file",
        "1 bad record skipped",
        "shop.sales: overwritten by 1 row in 1 transaction and 1 ORC file",
        "added discount double",
    ):
        assert expected in output
    output_of(python_blocks("docs/files.md"), tmp_path)
