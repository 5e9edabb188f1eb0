"""What the tests of commands share."""

from __future__ import annotations

import pytest

from tests.acceptance.cli.shell import Shell


@pytest.fixture
def alerts(shell: Shell) -> Shell:
    shell.done(
        *("create-table", "--create-metastore", "web.alerts", "--create-database"),
        *("--column", "id:int", "--column", "msg:string", "--column", "at:timestamp"),
        *("--partition-key", "continent:string", "--partition-key", "country:string"),
        *("--bucket-column", "id", "--num-buckets", "4", "--property", "orc.compress=ZLIB"),
    )
    return shell
