"""The values in tests/data/hive/serde_values.json are those of Hive's SerDes."""

from __future__ import annotations

import json

import pytest

from tests.interop.runner import VERSIONS
from tests.interop.serde_values import VALUES, ask, outcome


@pytest.mark.parametrize("version", VERSIONS)
def test_the_recorded_values_are_those_of_hives_serdes(version):
    records = json.loads(VALUES.read_text())["records"]
    answers = ask(version, records)
    assert [outcome(answer) for answer in answers] == [record[version] for record in records]
