"""Requests to Azure Storage that fail, are lost, or are answered in part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure
from hive_ingest.storage import Location
from hive_ingest.storage.azure import client as azure_client
from hive_ingest.storage.azure.store import AzureStore
from tests.services.azure import AzureService
from tests.services.azure_faults import AzureFault
from tests.storage.objects import LARGE, MIB, content, put, stage
from tests.storage.test_azure import authority_of

OPERATIONS = [
    "PutBlob",
    "PutBlock",
    "PutBlockList",
    "GetBlob",
    "ListBlobs",
    "GetBlobProperties",
    "DeleteBlob",
]


@pytest.fixture
def azure(azure_with_faults: AzureService) -> AzureService:
    return azure_with_faults


@pytest.fixture
def unrepeated(azure: AzureService, azure_root: Location, monkeypatch: pytest.MonkeyPatch) -> Location:
    """The folder, on a store that makes each request twice at most."""
    monkeypatch.setattr(azure_client, "_REPETITIONS", 1)
    return Location(AzureStore(authority_of(azure_root)), azure_root.path, str(azure_root))


@pytest.fixture
def impatient(unrepeated: Location, monkeypatch: pytest.MonkeyPatch) -> Location:
    """And waits for a second."""
    monkeypatch.setattr(azure_client, "_SILENCE_SECONDS", 1)
    return unrepeated


def use(root: Location) -> None:
    """Every request once at least, and what must come of it."""
    folder = root / "delta_1_1"
    assert folder.make_folder(exist_ok=False) == [folder.path]
    stage(root / ".a", folder / "a", b"a" * 9 * MIB)
    stage(root / ".b", folder / "b", LARGE)
    stage(root / ".c", folder / "b", LARGE)
    stage(root / ".d", folder / "d")
    AzureStore(authority_of(root)).rename((root / ".a").path, (folder / "a").path)  # as the driver, from the record
    (root / ".b").rename(folder / "b")
    with pytest.raises(PathExists):
        (root / ".c").rename(folder / "b")
    (root / ".c").delete_file()
    AzureStore(authority_of(root)).rename((root / ".d").path, (folder / "d").path)
    put(folder / "plain", LARGE)
    (folder / "plain").rename(folder / "copied")
    sizes = [(entry.name, entry.size_bytes) for entry in folder.list()]
    assert sizes == [("a", 9 * MIB), ("b", len(LARGE)), ("copied", len(LARGE)), ("d", 4)]
    assert content(folder / "a") == b"a" * 9 * MIB
    assert content(folder / "b") == content(folder / "copied") == LARGE
    assert content(folder / "d") == b"rows"
    (root / "delta_2_2").store.make_folder_with((root / "delta_2_2").path, "first", b"2")
    (root / "delta_2_2").delete_folder()
    folder.delete_folder()
    assert root.list() == []


def test_all_operations_are_used(azure: AzureService, azure_root: Location) -> None:
    """Otherwise the tests of their faults show nothing."""
    azure.set_faults()
    use(azure_root)
    assert set(OPERATIONS) == azure.proxy.requests().keys()


@pytest.mark.parametrize(
    "fault",
    [
        AzureFault("", "lose request"),
        AzureFault("", "lose answer"),
        AzureFault("", code="ServerBusy", status=503),
        AzureFault("", code="InternalError", status=500),
    ],
    ids=lambda fault: fault.code or fault.kind,
)
def test_requests_of_each_kind_that_fail_once_change_nothing(
    azure: AzureService, azure_root: Location, fault: AzureFault
) -> None:
    azure.set_faults(*(replace(fault, operation=operation) for operation in OPERATIONS))
    use(azure_root)


def test_answers_that_arrive_in_part_are_requested_again(azure: AzureService, azure_root: Location) -> None:
    azure.set_faults(*(AzureFault(operation, "half an answer") for operation in ("GetBlob", "ListBlobs")))
    use(azure_root)


CALLS: list[tuple[str, Callable[[Location], object]]] = [
    ("ListBlobs", lambda root: root.list()),
    ("ListBlobs", lambda root: root.list(missing_ok=True)),
    ("ListBlobs", lambda root: (root / "a").exists()),
    ("GetBlobProperties", lambda root: root.store.file_size((root / "a").path)),
    ("GetBlobProperties", lambda root: (root / "a").rename(root / "b")),
    ("GetBlob", lambda root: content(root / "a")),
    ("PutBlob", lambda root: put(root / "b")),
    ("PutBlob", lambda root: (root / "folder").make_folder(exist_ok=False)),
    ("PutBlock", lambda root: put(root / "b", b"x" * 9 * MIB)),
    ("PutBlockList", lambda root: put(root / "b", b"x" * 9 * MIB)),
    ("DeleteBlob", lambda root: (root / "a").delete_file()),
]


def test_a_service_that_does_not_answer_is_an_error_and_not_a_missing_file(
    azure: AzureService, impatient: Location
) -> None:
    put(impatient / "a")
    for operation, call in CALLS:
        azure.set_faults(AzureFault(operation, "hang", times=4))  # two blocks are sent at a time
        with pytest.raises(StreamingIOFailure, match="whose answer was lost may have taken effect") as failure:
            call(impatient)
        assert not isinstance(failure.value, PathExists | PathNotFound)
    azure.set_faults()
    assert [entry.name for entry in impatient.list()] == ["a"]


@pytest.mark.parametrize(
    ("code", "status", "remedy"),
    [
        ("AuthorizationPermissionMismatch", 403, "Storage Blob Data Contributor"),
        ("AuthenticationFailed", 403, "the credentials are wrong or have expired"),
        ("ServerBusy", 503, "limits the rate of requests"),
    ],
)
def test_errors_say_what_to_do(azure: AzureService, unrepeated: Location, code: str, status: int, remedy: str) -> None:
    put(unrepeated / "a")
    for operation, call in CALLS:
        azure.set_faults(AzureFault(operation, code=code, status=status, times=4))
        with pytest.raises(StreamingIOFailure, match=remedy) as failure:
            call(unrepeated)
        assert not isinstance(failure.value, PathExists | PathNotFound)
    azure.set_faults()
    assert [entry.name for entry in unrepeated.list()] == ["a"]
