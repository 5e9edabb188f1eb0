"""A package imports another one by its front, never by one of its modules; and no module is too long to read."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2] / "hive_ingest"
#: Packages whose `__init__.py` exports what others may use.
FRONTS = {
    "acid",
    "compaction",
    "connection",
    "delta",
    "inspection",
    "kerberos",
    "metastore_client",
    "metrics",
    "orc",
    "reader",
    "record_writer",
    "storage",
    "transactions",
}
#: Lines.
LONGEST_MODULE = 450


def imports_past_a_front(path: Path) -> list[str]:
    own = path.relative_to(ROOT).parts[0]
    modules = [
        node.module
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module is not None
    ]
    parts = [(module, module.split(".")) for module in modules if module.startswith("hive_ingest.")]
    return [module for module, names in parts if len(names) > 2 and names[1] in FRONTS - {own}]


def test_no_package_imports_a_module_of_another_one() -> None:
    found = {str(path.relative_to(ROOT)): imports_past_a_front(path) for path in ROOT.rglob("*.py")}
    assert {path: modules for path, modules in found.items() if modules} == {}


def test_every_front_exports_what_it_imports() -> None:
    for package in FRONTS:
        tree = ast.parse((ROOT / package / "__init__.py").read_text("utf-8"))
        exported = next(
            {ast.literal_eval(name) for name in node.value.elts}
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.List)
        )
        imported = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hive_ingest")
            for alias in node.names
        }
        assert imported <= exported, package


def test_no_module_is_longer_than_the_limit() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in ROOT.rglob("*.py")}
    assert {path: count for path, count in lines.items() if count > LONGEST_MODULE} == {}


def test_no_two_packages_have_a_class_of_one_name() -> None:
    """But for the two metastore clients, whose parts have the names of what they do."""
    packages: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                packages.setdefault(node.name, set()).add("/".join(path.relative_to(ROOT).parts[:-1]))
    clients = {"metastore_client/embedded", "metastore_client/thrift"}
    assert {name: found for name, found in packages.items() if len(found) > 1 and found != clients} == {}
