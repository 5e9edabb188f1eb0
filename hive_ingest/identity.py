"""The user and the host that are recorded in transactions, locks and abort reasons."""

from __future__ import annotations

import getpass
import os
import socket


def this_user() -> str:
    """The user's name; the numeric user id where it has none, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # no passwd entry (an OSError from Python 3.13 on), no pwd module
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"


def this_host() -> str:
    """The name of this host."""
    return socket.gethostname()
