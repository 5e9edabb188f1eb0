"""Options: their sources, types and ranges, checked in one way for all classes of options."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_ingest.config import StreamingSettings
from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client.embedded.options import EmbeddedOptions
from hive_ingest.metastore_client.thrift.options import ThriftOptions


def test_an_argument_overrides_the_environment_then_the_file_then_hive_site(tmp_path: Path) -> None:
    (tmp_path / "hive-site.xml").write_text(
        "<configuration><property><name>hive.exec.max.dynamic.partitions</name><value>5</value></property>"
        "</configuration>"
    )
    environ = {"HIVE_CONF_DIR": str(tmp_path)}
    assert StreamingSettings.load(environ=environ).max_partitions_per_transaction == 5
    (tmp_path / "options.toml").write_text("[streaming]\nmax_partitions_per_transaction = 6")
    environ["HIVE_INGEST_CONFIG"] = str(tmp_path / "options.toml")
    assert StreamingSettings.load(environ=environ).max_partitions_per_transaction == 6
    environ["HIVE_INGEST_MAX_PARTITIONS_PER_TRANSACTION"] = "7"
    assert StreamingSettings.load(environ=environ).max_partitions_per_transaction == 7
    assert StreamingSettings.load({"max_partitions_per_transaction": 8}, environ=environ) == StreamingSettings(
        max_partitions_per_transaction=8
    )


@pytest.mark.parametrize("kind", [StreamingSettings, EmbeddedOptions, ThriftOptions])
def test_an_unknown_name_is_reported_with_its_source_and_the_known_names(kind: type) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown option 'speed' in the arguments.*known are \w+_\w+"):
        kind.load({"speed": 9})  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"writer_threads": 2.5}, r"writer_threads=2.5 from the arguments: give a whole number, 1 or more \(threads"),
        ({"writer_threads": 0}, "writer_threads=0"),
        ({"writer_threads": True}, "writer_threads=True"),
        ({"lock_wait_seconds": "soon"}, "lock_wait_seconds='soon'.*give a number, 0 or more"),
        ({"lock_wait_seconds": -1}, "lock_wait_seconds=-1"),
        ({"lock_wait_seconds": float("nan")}, "lock_wait_seconds=nan"),
        ({"fsync": "perhaps"}, "fsync='perhaps'.*give true or false"),
    ],
)
def test_an_invalid_value_is_reported_with_the_valid_ones(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        StreamingSettings(**arguments)  # type: ignore[arg-type]


def test_option_texts_are_converted_to_their_types() -> None:
    settings = StreamingSettings.load({"writer_threads": "3", "lock_wait_seconds": "1.5", "fsync": " False "})
    assert (settings.writer_threads, settings.lock_wait_seconds, settings.fsync) == (3, 1.5, False)
    assert EmbeddedOptions.load({"txn_timeout_seconds": "300"}) == EmbeddedOptions()


def test_the_value_of_a_secret_is_not_in_the_message() -> None:
    with pytest.raises(ConfigurationError) as caught:
        ThriftOptions.load({"password": 314159})
    assert "314159" not in str(caught.value)
