"""The code of these pages runs as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.readme.pages import output_of, python_blocks


@pytest.mark.parametrize(("page", "blocks"), [("docs/from-java.md", 2), ("docs/threads.md", 5), ("docs/errors.md", 1)])
def test_the_code_of_a_page_runs_in_an_empty_folder(tmp_path: Path, page: str, blocks: int) -> None:
    found = python_blocks(page)
    assert len(found) == blocks
    output_of(found, tmp_path)
