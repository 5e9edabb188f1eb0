"""The user and the host that are recorded in transactions, locks and abort reasons."""

from __future__ import annotations

import getpass
import os
import socket
from functools import lru_cache

#: Where `getpass.getuser` looks first.
_VARIABLES = ("LOGNAME", "USER", "LNAME", "USERNAME")


def hadoop_user() -> str | None:
    """Who this process says it is where Hadoop asks for no proof; None where nobody has said.

    In a process of Spark it is who Spark's JVM is. In a container of YARN without Kerberos that is the user who
    submitted the job, while the process belongs to the user of the NodeManager.
    """
    return os.environ.get("HADOOP_USER_NAME") or os.environ.get("SPARK_USER")


def this_user() -> str:
    """The user's name; the numeric user id where it has none, as in many containers."""
    uid = os.getuid() if hasattr(os, "getuid") else None
    return _user(uid, tuple(os.environ.get(name) for name in _VARIABLES))


@lru_cache(maxsize=16)  # without these variables, as in most daemons, the passwd file is read each time
def _user(uid: int | None, variables: tuple[str | None, ...]) -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # no passwd entry (an OSError from Python 3.13 on), no pwd module
        return "unknown" if uid is None else str(uid)


def this_host() -> str:
    """The name of this host."""
    return socket.gethostname()
