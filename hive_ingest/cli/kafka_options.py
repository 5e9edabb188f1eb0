"""Options of kafka-python on the command line: `--kafka-option NAME=VALUE`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from hive_ingest.cli.options import pairs

_OPTION = "--kafka-option"

KafkaOptionOption = Annotated[
    list[str] | None,
    typer.Option(
        _OPTION,
        metavar="NAME=VALUE",
        help="An option of kafka-python, such as security_protocol=SASL_SSL; repeat it. "
        "Secrets: env:NAME or file:/path.",
    ),
]


def kafka_options_of(texts: Sequence[str] | None) -> dict[str, Any]:
    """`["fetch_max_bytes=1000", …]`, as values of the type of kafka-python's default.

    Raises:
        BadParameter: An invalid value, or a secret in clear text, which other users of the machine could see.
    """
    from hive_ingest.streaming.kafka.client_options import option_defaults

    if not texts:
        return {}
    defaults = option_defaults()
    found = pairs(texts, "=", _OPTION)
    for name, text in found.items():
        if is_plain_secret(name, text):
            raise typer.BadParameter(
                f"{name} is a secret, and other users see command lines: write env:NAME or file:/path",
                param_hint=_OPTION,
            )
    return {name: _typed(name, text, defaults.get(name)) for name, text in found.items()}


def is_plain_secret(name: str, value: object) -> bool:
    """Whether this is a secret itself, and not a reference to one."""
    from hive_ingest.streaming.kafka.client_options import SECRETS
    from hive_ingest.streaming.kafka.secrets import is_reference

    return name in SECRETS and not (isinstance(value, str) and is_reference(value))


def _typed(name: str, text: str, default: object) -> Any:
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(default, int | float):
            return type(default)(text)
    except (KeyError, ValueError) as error:
        kind = "true or false" if isinstance(default, bool) else "a number"
        raise typer.BadParameter(f"{name}={text!r}: give {kind}", param_hint=_OPTION) from error
    return text
