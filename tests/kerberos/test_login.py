"""`keytab` and `principal` of `connect_metastore`: an identity for the whole process. Each test is processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kerberos.conftest import KerberizedHdfs, KerberizedMetastore
from tests.services.kdc import REALM, Kdc

#: Long enough to tell a new ticket from one that has expired.
TICKET_SECONDS = 6

_ON_HDFS = """
import json, sys, time
import hive_ingest as hi
from hive_ingest.storage import Location

metastore, root, login, seconds = json.loads(sys.argv[1])
with hi.connect_metastore(metastore, create=True, **login):
    for name in ("first", "after"):
        with (Location.of(root) / name).create(sync=True) as out:
            out.write(b"rows")
        time.sleep(seconds)
"""

_ON_METASTORE = """
import json, sys, time
import hive_ingest as hi

uri, options, login, seconds = json.loads(sys.argv[1])
with hi.connect_metastore(uri, **options, **login) as client:
    print(client.get_databases())
    time.sleep(seconds)
    with client.clone() as late:
        print(late.get_databases())
try:
    hi.connect_metastore(uri, **options, keytab=login["keytab"], principal="somebody@ELSEWHERE")
except hi.ConfigurationError as error:
    print(error)
"""


def run(kdc: Kdc, code: str, *arguments: object, ticket_seconds: int = 3600, **environment: str) -> tuple[str, str]:
    """The output and the error output of a process without any ticket."""
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("KRB5")},
        "KRB5_CONFIG": str(kdc.configuration(ticket_seconds=ticket_seconds)),
        **environment,
    }
    command = [sys.executable, "-c", code, json.dumps(arguments)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout, done.stderr


def test_a_keytab_is_used_for_hdfs_and_its_tickets_are_renewed(
    kdc: Kdc, kerberized_hdfs: KerberizedHdfs, alice_keytab: Path, tmp_path: Path
) -> None:
    login = {"keytab": str(alice_keytab), "principal": f"alice@{REALM}"}
    place = (f"sqlite:///{tmp_path}/metastore.db", f"{kerberized_hdfs.server.uri}/", login, 2 * TICKET_SECONDS)
    _, err = run(
        kdc, _ON_HDFS, *place, ticket_seconds=TICKET_SECONDS, HADOOP_CONF_DIR=str(kerberized_hdfs.configuration)
    )
    assert err == ""


def test_a_keytab_is_used_for_a_metastore_and_its_tickets_are_renewed(
    kdc: Kdc, kerberized: Callable[..., KerberizedMetastore], alice_keytab: Path
) -> None:
    metastore = kerberized("4.0.1")
    login = {"keytab": str(alice_keytab)}
    out, err = run(
        kdc, _ON_METASTORE, metastore.uri, metastore.options, login, 2 * TICKET_SECONDS, ticket_seconds=TICKET_SECONDS
    )
    assert err == ""
    first, late, other_identity = out.splitlines()
    assert first == late == "['default']"
    assert "a process has one identity" in other_identity


_MAKE_FOLDER = """
import json, sys
import hive_ingest as hi
from hdfs_native import Client
from hive_ingest.storage import Location

metastore, root, name, login = json.loads(sys.argv[1])
try:
    with hi.connect_metastore(metastore, create=True, **login):
        (Location.of(root) / name).make_folder()
    print(Client(root).get_file_info(f"/{name}").owner)
except hi.StreamingError as error:
    print(error)
"""


@pytest.fixture(scope="session")
def two_keys(kdc: Kdc) -> Path:
    """A keytab of two users."""
    return kdc.keytab("bob", "carol")


@pytest.mark.parametrize("principal", ["bob", "carol"])
def test_the_principal_chooses_one_of_several_in_the_keytab(
    kdc: Kdc, kerberized_hdfs: KerberizedHdfs, two_keys: Path, tmp_path: Path, principal: str
) -> None:
    login = {"keytab": str(two_keys), "principal": f"{principal}@{REALM}"}
    kerberized_hdfs.server.set_permission("/", "777")
    place = (f"sqlite:///{tmp_path}/metastore.db", kerberized_hdfs.server.uri, f"of_{principal}", login)
    out, err = run(kdc, _MAKE_FOLDER, *place, HADOOP_CONF_DIR=str(kerberized_hdfs.configuration))
    assert (out.strip(), err) == (principal, "")


@pytest.mark.parametrize(
    ("login", "message"),
    [
        ({"keytab": "/nowhere/x.keytab"}, "the keytab '/nowhere/x.keytab' cannot be read"),
        ({"keytab": "KEYTAB", "principal": f"dave@{REALM}"}, f"cannot log in as 'dave@{REALM}' with the keytab"),
        ({"principal": "alice"}, "needs keytab: give both"),
    ],
)
def test_a_login_that_is_not_possible_is_an_error_that_names_it(
    kdc: Kdc, alice_keytab: Path, tmp_path: Path, login: dict[str, str], message: str
) -> None:
    given = {name: value.replace("KEYTAB", str(alice_keytab)) for name, value in login.items()}
    out, err = run(kdc, _MAKE_FOLDER, f"sqlite:///{tmp_path}/metastore.db", f"file:{tmp_path}", "x", given)
    assert message in out, err
