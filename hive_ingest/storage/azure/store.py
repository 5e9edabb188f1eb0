"""Azure Storage, through azure-storage-blob.

Folders are what Hadoop's ABFS makes of them: a folder is there if a blob lies in it, or an empty blob with its name and
the metadata `hdi_isfolder`. In an account with a hierarchical namespace such blobs are how the service shows folders.

A new name is taken by a conditional request (`If-None-Match: *`), so of several writers one gets it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure
from hive_ingest.storage.azure.client import AzureClient, is_folder
from hive_ingest.storage.azure.files import SMALL_BYTES, AzureInputFile, AzureOutputFile, Blocks
from hive_ingest.storage.azure.options import AzureOptions
from hive_ingest.storage.file_store import FileEntry, OutputFile
from hive_ingest.storage.objects.paths import folder_entry, key_of, prefix_of
from hive_ingest.storage.objects.records import RECORD_TYPE
from hive_ingest.storage.objects.staged import SmallFile, StagedFiles
from hive_ingest.storage.objects.store import ObjectStore

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

#: How many blobs a call of `delete_some` deletes at most.
_DELETE_AT_ONCE: Final = 1000
_COPY_BYTES: Final = 8 << 20


class AzureStore(ObjectStore):
    """Paths are those of one container: `/` and the name of a blob."""

    def __init__(self, authority: str, options: Callable[[], AzureOptions] | None = None) -> None:
        """
        Args:
            authority: `CONTAINER@ACCOUNT.dfs.core.windows.net`.
            options: Called at the first use; by default those of `core-site.xml` and the environment.
        """
        self._client = AzureClient(authority, options or (lambda: AzureOptions.of_authority(authority)))
        self._staged = StagedFiles[Blocks]()
        super().__init__(self._client, self._staged)

    # -- files -------------------------------------------------------------------------------------

    def _new_file(self, path: str, target: str | None, *, stays_here: bool) -> OutputFile:
        return AzureOutputFile(self._client, path, target, self._staged, stays_here=stays_here)

    def open_input(self, path: str) -> pa.NativeFile:
        if (kept := self._staged.kept(path)) is not None:
            return pa.BufferReader(kept.content)
        return pa.PythonFile(AzureInputFile(self._client, path), mode="r")

    def publish(self, source: str, target: str) -> None:
        what = f"{source} to {target}"
        if self._publish_kept(what, source, target):
            return
        staged = self._staged.take(source) or self._look(source)
        if isinstance(staged, SmallFile):
            staged.put(self._client, "rename", what, key_of(target))
        elif isinstance(staged, Blocks):
            self._commit(what, staged, target)
        else:
            self._copy(what, source, target)

    def _commit(self, what: str, blocks: Blocks, target: str) -> None:
        blocks.commit(self._client, "rename", what)
        if blocks.key != key_of(target):
            # The partition lies elsewhere than its name says. In the folder of its name it is not looked for.
            try:
                self._copy(what, f"/{blocks.key}", target)
            finally:
                self._delete(f"/{blocks.key}")

    def _copy(self, what: str, source: str, target: str) -> None:
        """Through this process. Raises PathExists."""
        with (
            AzureInputFile(self._client, source) as file,
            AzureOutputFile(self._client, target, None, self._staged) as out,
        ):
            while block := file.read(_COPY_BYTES):
                out.write(block)

    def _look(self, path: str) -> Blocks | SmallFile | int:
        """What a hidden file is that this process does not know: blocks, a small file, or the size of a large one."""
        found = self._client.head(path, key_of(path))
        if found is None:
            raise PathNotFound(f"cannot look at {self._client.uri(path)!r}: no such file: it was removed")
        if found.content_type != RECORD_TYPE and found.size_bytes > SMALL_BYTES:
            return found.size_bytes
        data, _, _ = self._client.read("read", path, key_of(path), 0, SMALL_BYTES)
        if found.content_type == RECORD_TYPE:
            return Blocks.parsed(path, data)
        return SmallFile(data, found.token)

    def remove_old_names(self, sources: Sequence[str]) -> None:
        def remove(path: str) -> None:
            try:
                self._delete(path)
            except StreamingIOFailure:
                return  # it stays; whoever cleans up tries again
            self._renamed.add(path)

        self._each([path for path in sources if path not in self._renamed], remove)

    def file_size(self, path: str) -> int:
        if (kept := self._staged.kept(path)) is not None:
            return len(kept.content)
        found = self._client.head(path, key_of(path))
        if found is None or found.is_folder:
            raise PathNotFound(f"cannot look at {self._client.uri(path)!r}: no such file: it was removed")
        if found.content_type == RECORD_TYPE and isinstance(staged := self._look(path), Blocks):
            return staged.size_bytes
        return found.size_bytes

    def delete_file(self, path: str) -> None:
        if path in self._renamed or self.drop_kept(path):
            return
        self._staged.take(path)
        self._delete(path)  # with a record; its blocks cannot be removed

    def _delete(self, path: str) -> None:
        self._client.delete(path, key_of(path))

    def _each(self, paths: Sequence[str], function: Callable[[str], None]) -> None:
        """Call the function for each path, several at a time. The first error is raised."""
        with ThreadPoolExecutor(max(1, min(len(paths), self.parallel_files)), "hive-ingest-files") as pool:
            list(pool.map(function, paths))

    # -- folders -----------------------------------------------------------------------------------

    def _marker_of(self, path: str) -> str:
        return key_of(path.rstrip("/"))

    def _put_marker(self, path: str) -> None:
        self._client.put_new("make folder", path, self._marker_of(path), b"", is_folder=True)

    def make_folder_with(self, path: str, name: str, data: bytes) -> None:
        # Whoever has made its first file cannot tell whether an empty folder was there.
        if self._client.head(path, self._marker_of(path)) is not None:
            raise PathExists(f"cannot make folder {self._client.uri(path)!r}: it exists already")
        super().make_folder_with(path, name, data)

    def _require_alone(self, path: str, key: str) -> None:
        expected = [key] if key.startswith(prefix_of(path)) else []
        if self._first_keys(path, 2) != expected:
            raise PathExists(f"cannot make folder {self._client.uri(path)!r}: it exists already")

    def _is_file(self, path: str) -> bool:
        found = self._client.head(path, key_of(path)) if key_of(path) else None
        return found is not None and not found.is_folder

    def _is_folder(self, path: str) -> bool:
        if not prefix_of(path):
            return True
        if self._first_keys(path, 1):
            return True
        found = self._client.head(path, self._marker_of(path))
        return found is not None and found.is_folder

    def _first_keys(self, path: str, most: int) -> list[str]:
        """The first names in a folder, without that of its marker."""

        def first(container: ContainerClient) -> list[str]:
            pages = container.list_blobs(name_starts_with=prefix_of(path), results_per_page=most).by_page()
            return [blob.name for blob in itertools.islice((blob for page in pages for blob in page), most)]

        return self._client.call("look at", path, first)

    def list(self, path: str, *, recursive: bool = False, missing_ok: bool = False) -> list[FileEntry]:
        path = path.rstrip("/")
        entries: dict[str, FileEntry] = {}
        for found in self._blobs(path, recursive=recursive):
            for entry in _entries(path, found):
                if entry.is_folder:
                    entries[entry.path] = entry  # a name that is listed as the beginning of others, and as a marker
                else:
                    entries.setdefault(entry.path, entry)
        if not entries and not self._is_folder(path):
            failure = self._missing_or_file(path)
            if not (missing_ok and isinstance(failure, PathNotFound)):
                raise failure
        return sorted(entries.values(), key=lambda entry: entry.path)

    def _blobs(self, path: str, *, recursive: bool) -> Sequence[Any]:
        def blobs(container: ContainerClient) -> Sequence[Any]:
            options: dict[str, Any] = {"name_starts_with": prefix_of(path) or None, "include": ["metadata"]}
            return list(container.list_blobs(**options) if recursive else container.walk_blobs(**options))

        return self._client.call("list", path, blobs)

    def delete_empty_folder(self, path: str) -> bool:
        if self.list(path, missing_ok=True):
            return False
        self._known.forget(path)
        self._keep_folder_above(path)
        self._delete(path.rstrip("/"))
        return True

    def delete_some(self, path: str) -> bool:
        path = path.rstrip("/")
        self._known.forget(path)
        self._keep_folder_above(path)
        keys = self._first_keys(path, _DELETE_AT_ONCE + 1)
        # What lies deepest first: a folder of a hierarchical namespace is only deleted when it is empty.
        depths = sorted({key.count("/") for key in keys[:_DELETE_AT_ONCE]}, reverse=True)
        for depth in depths:
            self._each([f"/{key}" for key in keys[:_DELETE_AT_ONCE] if key.count("/") == depth], self._delete_below)
        if len(keys) > _DELETE_AT_ONCE:
            return False
        self._delete(path)
        return True

    def _keep_folder_above(self, path: str) -> None:
        """Mark the folder in which something is to be removed, if it has no marker: it must not vanish."""
        above = path.rstrip("/").rpartition("/")[0]
        if key_of(above) and self._client.head(above, key_of(above)) is None and self._is_folder(above):
            with contextlib.suppress(PathExists):
                self._put_marker(above)

    def _delete_below(self, path: str) -> None:
        try:
            self._delete(path)
        except StreamingIOFailure as failure:
            if "DirectoryIsNotEmpty" not in str(failure):  # its other files are deleted by the next call
                raise


def _entries(path: str, found: Any) -> Iterator[FileEntry]:
    """A blob or the beginning of names that was listed, and the folders between it and the folder that is listed."""
    parts = f"/{found.name}"[len(path) + 1 :].rstrip("/").split("/")
    for depth in range(1, len(parts)):
        yield folder_entry(f"{path}/{'/'.join(parts[:depth])}")
    whole = f"{path}/{'/'.join(parts)}"
    if found.name.endswith("/") or is_folder(getattr(found, "metadata", None)):
        yield folder_entry(whole)
    else:
        yield FileEntry(whole, parts[-1], int(found.size), False)
