"""Secrets that an option names instead of containing them: `env:NAME` and `file:/path`.

Other users of the machine may read configuration files and command lines, which need only contain such a reference;
`repr` and log messages show it too. It is resolved when a client is created, so the next client uses a changed secret.
"""

from __future__ import annotations

import os
from pathlib import Path

from hive_ingest.errors import ConfigurationError

_ENVIRONMENT = "env:"
_FILE = "file:"


def is_reference(text: str) -> bool:
    """Whether this is `env:…` or `file:…`, and not the secret itself."""
    return text.startswith((_ENVIRONMENT, _FILE))


def read_secret(option: str, text: str) -> str:
    """The secret that a reference names; other text is the secret.

    Args:
        option: The name of the option, for errors.
        text: `env:NAME`, `file:/path`, or the secret.

    Raises:
        ConfigurationError: The variable is not set, the file cannot be read, or it is empty. The message contains the
            reference, not the secret.
    """
    if text.startswith(_ENVIRONMENT):
        secret = _from_environment(option, text.removeprefix(_ENVIRONMENT))
    elif text.startswith(_FILE):
        secret = _from_file(option, text.removeprefix(_FILE))
    else:
        secret = text
    if not secret:
        raise ConfigurationError(f"{option} is empty" + f" ({text}): give a value" * bool(text))
    return secret


def _from_environment(option: str, name: str) -> str:
    try:
        return os.environ[name]
    except KeyError as error:
        raise ConfigurationError(
            f"{option}=env:{name}: there is no environment variable {name!r}; set it, or name another one"
        ) from error


def _from_file(option: str, path: str) -> str:
    """Without the line break that editors put at the end of a file."""
    try:
        text = Path(path).expanduser().read_text("utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise ConfigurationError(f"{option}=file:{path}: the file cannot be read: {why}") from error
    return text.removesuffix("\n").removesuffix("\r")
