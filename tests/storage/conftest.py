"""A new, empty folder on each kind of file system."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hive_ingest.storage import Location
from tests.services.azure import AzureService, running_azure
from tests.services.hdfs import Hdfs
from tests.services.s3 import S3Service, running_s3

_KINDS = ("local", "hdfs", "s3", "azure")
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """Started when the first test requests it. Each test has a folder of its own."""
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


@pytest.fixture
def hdfs_root(hdfs: Hdfs) -> Location:
    """A new folder on HDFS."""
    root = Location.of(f"{hdfs.uri}/tests/{next(_numbers)}")
    root.make_folder()
    return root


@pytest.fixture(scope="session")
def s3_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Service]:
    """Started when the first test requests it. Each test has a bucket of its own."""
    with running_s3(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def s3(s3_service: S3Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Service]:
    """The service, to which locations of S3 lead during the test."""
    for name, value in s3_service.environment.items():
        monkeypatch.setenv(name, value)
    yield s3_service
    s3_service.set_faults()


@pytest.fixture
def s3_root(s3: S3Service) -> Location:
    """A new folder on S3."""
    root = Location.of(f"s3a://{s3.new_bucket()}/tests/{next(_numbers)}")
    root.make_folder()
    return root


@pytest.fixture(scope="session")
def azure_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureService]:
    """Started when the first test requests it. Each test has a container of its own."""
    with running_azure(tmp_path_factory.mktemp("azure")) as running:
        yield running


@pytest.fixture
def azure(azure_service: AzureService, monkeypatch: pytest.MonkeyPatch) -> AzureService:
    """The service, to which locations of Azure Storage lead during the test."""
    for name, value in azure_service.environment.items():
        monkeypatch.setenv(name, value)
    return azure_service


@pytest.fixture
def azure_with_faults(azure: AzureService, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureService]:
    """The service, whose requests of the test are counted and fail on demand. Requested before a store is used."""
    for name, value in azure.environment_with_faults.items():
        monkeypatch.setenv(name, value)
    azure.set_faults()
    yield azure
    azure.set_faults()


@pytest.fixture
def azure_root(azure: AzureService) -> Location:
    """A new folder on Azure Storage."""
    root = Location.of(f"{azure.new_container()}/tests/{next(_numbers)}")
    root.make_folder()
    return root


@pytest.fixture(params=_KINDS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """A new folder on each kind."""
    made: dict[str, Callable[[], Location]] = {
        "local": lambda: Location.of(str(tmp_path)),
        "hdfs": lambda: request.getfixturevalue("hdfs_root"),
        "s3": lambda: request.getfixturevalue("s3_root"),
        "azure": lambda: request.getfixturevalue("azure_root"),
    }
    return made[request.param]()
