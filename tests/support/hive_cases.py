"""How many of the cases of a Java class of Hive's tests are ported.

A case is ported by a test function with the name of Hive's method in snake case, beginning with `test_`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def check_ported(java_class: str, cases: Sequence[str], left_out: Mapping[str, str], modules: Iterable[Path]) -> None:
    """Print how many cases are ported, and compare the lists with the tests that exist.

    Args:
        java_class: Hive's class.
        cases: The cases that are ported.
        left_out: Why each of the others is not.
        modules: The files of the tests.

    Raises:
        AssertionError: A case is listed twice, has no test or no reason, or a test is not listed.
    """
    tests = [name for module in modules for name in _tests_of(module)]
    ported = [name for name in tests if name in cases]
    print(f"{java_class}: {len(ported)} of {len(cases) + len(left_out)} ported")
    assert sorted(ported) == sorted(cases)
    assert not set(cases) & set(left_out)
    assert all(left_out.values())


def _tests_of(module: Path) -> list[str]:
    body = ast.parse(module.read_text(encoding="utf-8")).body
    return [node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
