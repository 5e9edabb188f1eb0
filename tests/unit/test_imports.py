"""What an import of the package loads: each of Spark's Python processes pays for it again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("module", ["hive_ingest", "hive_ingest.streaming.spark.data_source"])
def test_an_import_does_not_load_pandas(module: str) -> None:
    """Arrow's datasets did, for two thirds of the time, in all five processes of a write through the data source."""
    code = f"import sys, {module}; print(sorted({{'pandas', 'sqlalchemy', 'pyarrow.dataset'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_import_does_not_load_what_only_an_extra_brings() -> None:
    code = "import sys, hive_ingest.streaming.kafka; print(sorted({'kafka', 'fastavro'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("sys.modules['pyspark'] = None", "HiveDataSource needs pyspark: pip install 'hive-ingest[spark]'"),
        ("sys.path.insert(0, sys.argv[1])", "HiveDataSource needs pyspark 4.0 or newer, and this is 3.5.9"),
    ],
    ids=["without pyspark", "with pyspark 3.5"],
)
def test_an_import_that_pyspark_does_not_allow_says_what_to_install(path: str, error: str, tmp_path: Path) -> None:
    """A `ModuleNotFoundError` of pyspark.sql.datasource does not tell that 3.5 lacks it."""
    package = tmp_path / "pyspark" / "sql"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("__version__ = '3.5.9'")
    (package / "__init__.py").touch()
    code = f"import sys; {path}\nfrom hive_ingest.streaming.spark import HiveDataSource"
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"ImportError: {error}" in done.stderr.splitlines()[-1]


def test_a_transaction_does_not_load_pandas(tmp_path: Path) -> None:
    """`pa.array` loads it, where it is installed, in 0.6 s and 30 MiB."""
    code = f"""
import sys
import hive_ingest as hi
ms = hi.connect_metastore("sqlite:///{tmp_path}/m.db", warehouse="{tmp_path}/w", create=True)
id_, day = {{"id": "int"}}, {{"day": "string"}}
for table, columns, keys in (("a", id_ | day, {{}}), ("b", id_, day)):
    ms.create_table(f"default.{{table}}", columns=columns, partition_keys=keys)
    writer = hi.StrictJsonWriter()
    with hi.StreamingConnection.connect(ms, database="default", table=table, record_writer=writer) as conn:
        with conn.transaction():
            for i in range(100):
                conn.write(b'{{"id": %d, "day": "%d"}}' % (i, i % 3))
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_progress_of_a_sink_is_written_and_read_without_pandas(tmp_path: Path) -> None:
    code = f"""
import sys
import hive_ingest as hi
ms = hi.connect_metastore("sqlite:///{tmp_path}/m.db", warehouse="{tmp_path}/w", create=True)
ms.create_table("default.a", columns={{"id": "int"}})
for position in (1, 2):
    writer = hi.StrictJsonWriter()
    with hi.StreamingConnection.connect(
        ms, database="default", table="a", record_writer=writer, sink="s", sources=["x"]
    ) as conn:
        conn.begin_transaction()
        assert conn.progress["x"] is None or conn.progress["x"].position == 1
        conn.write(b'{{"id": 1}}\\n' * 40)
        conn.commit_transaction(positions={{"x": position}})
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
