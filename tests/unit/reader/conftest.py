"""A metastore, and tables whose ACID files a test writes itself."""

import pyarrow as pa
import pytest

from tests.support.acid_files import TableOnDisk, write_acid_file
from tests.support.metastores import connect_in


@pytest.fixture
def metastore(metastore_uri, tmp_path):
    with connect_in(tmp_path, metastore_uri) as client:
        client.create_database("web")
        yield client


@pytest.fixture
def acid_file():
    return write_acid_file


@pytest.fixture
def make_table(metastore):
    def make(name="web.t", columns=None, **options):
        return TableOnDisk(metastore, name, columns or {"id": "int", "msg": "string"}, **options)

    return make


@pytest.fixture
def struct():
    """`struct(id=[1, 2], msg=["a", "b"])` as an Arrow struct array, ints as int32."""

    def build(**columns):
        arrays = [
            pa.array(values, pa.int32()) if all(isinstance(v, int) for v in values) else pa.array(values)
            for values in columns.values()
        ]
        return pa.StructArray.from_arrays(arrays, list(columns))

    return build


@pytest.fixture
def table(make_table, struct):
    """Two committed deltas of three and two rows."""
    found = make_table()
    found.insert(found.commit(), struct(id=[1, 2, 3], msg=["a", "b", "c"]))
    found.insert(found.commit(), struct(id=[4, 5], msg=["d", "e"]))
    return found
