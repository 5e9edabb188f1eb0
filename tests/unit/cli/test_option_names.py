"""The command line and the Python functions agree on names, defaults and words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from hive_ingest.cli.app import make_app
from hive_ingest.cli.option_names import in_option_names, option_names
from hive_ingest.metastore_client import Catalog, connect_metastore
from hive_ingest.reader import scan
from hive_ingest.record_writer import CsvWriter, StrictDelimitedInputWriter, StrictJsonWriter, StrictRegexWriter
from hive_ingest.streaming import follow_files, infer_columns, ingest_files
from hive_ingest.streaming.kafka import KafkaIngest, KafkaOptions, KafkaRoute

#: Options that no argument of the library stands for.
_ONLY_HERE = {
    "create-table": {"create_database", "from_file", "dry_run"},
    "ingest": {"files", "format", "bad_records_table", "follow", "partition"},
    "kafka": {
        *("config", "dead_letter_topic", "format", "message_columns", "schema_registry"),
        *("metrics_port", "metrics_host", "max_commit_age_seconds"),
    },
    "read": {"limit", "output", "null_format"},
}
_FUNCTIONS: dict[str, tuple[Callable[..., Any], ...]] = {
    "create-table": (Catalog.create_table, infer_columns),
    "ingest": (
        *(ingest_files, follow_files, CsvWriter, StrictJsonWriter),
        *(StrictDelimitedInputWriter, StrictRegexWriter),
    ),
    "kafka": (
        *(KafkaIngest, KafkaIngest.run, KafkaOptions, KafkaRoute),
        *(CsvWriter, StrictJsonWriter, StrictDelimitedInputWriter, StrictRegexWriter),
    ),
    "read": (scan,),
}
#: What stands for a list of several on the command line.
_SINGULAR = {
    "columns": "column",
    "partition_keys": "partition-key",
    "bucket_columns": "bucket-column",
    "properties": "property",
    "timestamp_formats": "timestamp-format",
    "date_formats": "date-format",
    "null_values": "null-value",
    "kafka_options": "kafka-option",
}


def command(name: str) -> TyperCommand:
    group = typer.main.get_command(make_app(lambda: None))
    assert isinstance(group, TyperGroup)
    found = group.commands[name]
    assert isinstance(found, TyperCommand)
    return found


def arguments(name: str) -> dict[str, Any]:
    """Arguments of the functions that a command calls, with their defaults."""
    functions = (connect_metastore, *_FUNCTIONS[name])
    return {
        parameter.name: parameter.default
        for function in functions
        for parameter in inspect.signature(function).parameters.values()
    }


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_an_option_has_the_name_of_the_argument_that_it_sets(name: str) -> None:
    known = arguments(name)
    for parameter in command(name).params:
        assert parameter.name is not None
        if parameter.name in {"metastore", "help", *_ONLY_HERE[name]}:
            continue
        assert parameter.name in known
        if isinstance(parameter, TyperOption) and parameter.name != "create":
            singular = _SINGULAR.get(parameter.name) if parameter.multiple else None
            assert parameter.opts[0] == f"--{singular or parameter.name.replace('_', '-')}"


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_an_option_has_the_default_of_its_argument(name: str) -> None:
    known = arguments(name)
    for parameter in command(name).params:
        default = known.get(parameter.name or "", inspect.Parameter.empty)
        if isinstance(parameter, TyperOption) and default is not inspect.Parameter.empty:
            shown = parameter.default
            # Nothing given: an empty list, and the number of buckets of a table without any.
            nothing = shown is None and (default is None or default == () or default == -1)
            assert nothing or getattr(shown, "value", shown) == default, parameter.name


@pytest.mark.parametrize(
    ("message", "translated"),
    [
        ("use it, or pass if_not_exists=True", "use it, or pass --if-not-exists"),
        ("or create one there with create=True", "or create one there with --create-metastore"),
        ("not within lock_wait_seconds=0.5: wait", "not within HIVE_INGEST_LOCK_WAIT_SECONDS=0.5: wait"),
        ("raise begin_retries or fsync", "raise HIVE_INGEST_BEGIN_RETRIES or fsync"),
        ("set fsync=True", "set HIVE_INGEST_FSYNC=true"),
        ("free some space, then begin a new transaction", "free some space, then run the command again"),
        ("set fsync=False", "set HIVE_INGEST_FSYNC=false"),
        ("num_buckets=4: give both", "--num-buckets=4: give both"),
        ("set location='x'", "set --location x"),
        ("set decimal_point=','. Correct", "set --decimal-point ,. Correct"),
        ("column 'num_buckets' of columns in the location", "column 'num_buckets' of columns in the location"),
        ("file '/data/if_not_exists/x' and a.num_buckets", "file '/data/if_not_exists/x' and a.num_buckets"),
        ("'where' is no argument=1", "'where' is no argument=1"),
    ],
)
def test_arguments_in_a_message_become_options_or_variables(message: str, translated: str) -> None:
    assert in_option_names(message, option_names(command("create-table"))) == translated


def test_a_flag_that_is_to_be_false_becomes_the_option_that_turns_it_off() -> None:
    """The error for a file without a header named --header=False, which is no option."""
    names = option_names(command("ingest"))
    assert in_option_names("(else set header=False), and field_delimiter", names) == (
        "(else set --no-header), and --field-delimiter"
    )
    assert in_option_names("give follow=False", names) == "give follow=False"


def test_what_another_command_does_is_named_with_that_command() -> None:
    text = in_option_names("create one there with create=True", option_names(command("read")))
    assert text == "create one there with `hive-ingest create-table --create-metastore`"
