"""The site of the documentation: every page is in its navigation, and every public name in its reference."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import hive_ingest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "scripts/_docs_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_navigation(hooks: ModuleType) -> None:
    named = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    pages = [path.name for path in (ROOT / "docs").glob("*.md")]
    assert sorted(named) == sorted(["index.md", *pages, *(f"reference/{name}.md" for name in hooks.REFERENCE)])


def test_every_public_name_is_in_the_reference(hooks: ModuleType) -> None:
    pages = hooks.REFERENCE.values()
    for page in pages:
        module = importlib.import_module(page.module)
        assert [name for name in page.names.split() if not hasattr(module, name)] == []
    shown = {name for page in pages for name in page.names.split()}
    errors = {name for name in hive_ingest.__all__ if hasattr(hive_ingest.errors, name)}
    assert set(hive_ingest.__all__) - shown == errors


@pytest.mark.parametrize(
    ("folder", "target", "expected"),
    [
        ("", "docs/spark.md", "spark.md"),
        ("docs", "spark.md", "spark.md"),
        ("docs", "../README.md", "index.md"),
        ("docs", "../deploy/systemd", "https://example.org/tree/main/deploy/systemd"),
        ("docs", "../deploy/docker/Dockerfile", "https://example.org/blob/main/deploy/docker/Dockerfile"),
    ],
)
def test_links_lead_to_pages_or_to_the_repository(hooks: ModuleType, folder: str, target: str, expected: str) -> None:
    assert hooks.link(ROOT / folder, target, "https://example.org") == expected
