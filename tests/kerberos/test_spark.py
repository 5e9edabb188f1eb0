"""Executors on a real cluster that write to an HDFS that requires Kerberos: Spark's own, with two workers.

Driver and executors have the variables that docs/deploy.md names. The JVMs read the realm, and hold no ticket.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.kerberos.conftest import KerberizedHdfs
from tests.kerberos.test_hdfs import restart_namenode
from tests.services.kdc import REALM, Kdc, login_environment
from tests.spark.class_archive import archived_jvm_options
from tests.spark.driver import Driver
from tests.spark.fixtures import install_spark, start_driver
from tests.spark.installation import Installation
from tests.spark.standalone import standalone_cluster

__all__ = ["install_spark", "start_driver"]

#: Of a ticket: shorter than a batch of the first session takes, so that it is renewed in between.
TICKET_SECONDS = 6

Install = Callable[..., Installation]
Start = Callable[..., Driver]

_SCRIPT = Path(__file__).with_name("spark_job.py")


@pytest.fixture
def start_job(
    kdc: Kdc,
    kerberized_hdfs: KerberizedHdfs,
    alice_keytab: Path,
    install_spark: Install,
    start_driver: Start,
    tmp_path: Path,
) -> Callable[..., Driver]:
    """Starts the job, by its number of batches and the environment of the executors, on a cluster that runs."""

    def start(master: str, batches: int, executors: Mapping[str, str], files: Path) -> Driver:
        job = {
            "metastore": f"sqlite:///{tmp_path}/metastore.db",
            "warehouse": f"{kerberized_hdfs.server.uri}/{tmp_path.name}/warehouse",
            "folder": str(tmp_path),
            "batches": batches,
        }
        (tmp_path / "job.json").write_text(json.dumps(job))
        configuration = kdc.configuration(ticket_seconds=TICKET_SECONDS)
        both = {"HADOOP_CONF_DIR": str(kerberized_hdfs.configuration), "KRB5_CONFIG": str(configuration)}
        conf = {f"spark.executorEnv.{name}": value for name, value in {**both, **executors}.items()}
        installation = install_spark(
            master=master, conf=conf | {"spark.files": str(files)}, jvm_options=_jvm_options(configuration)
        )
        environ = both | dict(login_environment(configuration, alice_keytab, "MEMORY:"))
        return start_driver(installation, _SCRIPT, tmp_path / "job.json", environ=environ)

    return start


def _jvm_options(configuration: Path) -> str:
    """Hadoop asks Java's own classes for the realm."""
    package = "java.security.jgss/sun.security.krb5=ALL-UNNAMED"
    realm = f"-Djava.security.krb5.conf={configuration} --add-opens={package} --add-exports={package}"
    return f"{archived_jvm_options()} {realm}"


def test_executors_with_a_keytab_write_beyond_the_life_of_a_ticket(
    install_spark: Install,
    start_job: Callable[..., Driver],
    kerberized_hdfs: KerberizedHdfs,
    alice_keytab: Path,
    tmp_path: Path,
) -> None:
    """Their connections are closed after the first batch, so that a ticket is needed again."""
    keytab = {"KRB5_CLIENT_KTNAME": alice_keytab.name, "KRB5CCNAME": "MEMORY:"}  # by --files, in the working folder
    with standalone_cluster(install_spark()) as master:
        driver = start_job(master, 2, keytab, alice_keytab)
        (tmp_path / "go-0").touch()
        driver.wait_for("batch 0 committed")
        time.sleep(2 * TICKET_SECONDS)
        restart_namenode(kerberized_hdfs)
        (tmp_path / "go-1").touch()
        done = driver.wait()
    assert done.out.splitlines() == ["batch 0 committed", "batch 1 committed", "rows 0 1"], done.err


def test_executors_write_with_delegation_tokens(
    install_spark: Install,
    start_job: Callable[..., Driver],
    kerberized_hdfs: KerberizedHdfs,
    alice_keytab: Path,
    tmp_path: Path,
) -> None:
    """YARN sets the same variable for its containers."""
    tokens = tmp_path / "tokens"
    kerberized_hdfs.server.write_tokens(tokens, f"alice@{REALM}", alice_keytab)
    environment = {"KRB5CCNAME": "MEMORY:", "HADOOP_TOKEN_FILE_LOCATION": tokens.name}
    with standalone_cluster(install_spark()) as master:
        driver = start_job(master, 1, environment, tokens)
        (tmp_path / "go-0").touch()
        done = driver.wait()
    assert done.out.splitlines() == ["batch 0 committed", "rows 0"], done.err


def test_executors_without_a_ticket_are_found_before_the_first_batch(
    install_spark: Install, start_job: Callable[..., Driver], alice_keytab: Path, tmp_path: Path
) -> None:
    with standalone_cluster(install_spark()) as master:
        driver = start_job(master, 1, {"KRB5CCNAME": "MEMORY:"}, alice_keytab)
        (tmp_path / "go-0").touch()
        done = driver.wait()
    [failed, rows] = done.out.splitlines()
    assert rows == "rows"
    assert "the executors cannot write into web.t" in failed
    assert "Kerberos authentication failed" in failed
    assert "Get a ticket with kinit, or name a keytab in KRB5_CLIENT_KTNAME" in failed
