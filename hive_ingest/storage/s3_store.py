"""S3, and the stores that have its interface, through boto3.

Folders are what Hadoop's S3A makes of them: a folder is there if an object lies in it, or an empty object with its
name and a `/`, its marker. S3A before Hadoop 3.3.1 takes a folder with a marker for an empty one, and would remove
the marker alone; so markers are removed when files are published in the folder, and made again when it is emptied.

A new name is taken by a conditional request (`If-None-Match: *`), so of several writers one gets it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa

from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure, UnsupportedFeature
from hive_ingest.storage.file_store import FileEntry, FileStore, OutputFile
from hive_ingest.storage.s3_client import S3Client
from hive_ingest.storage.s3_files import SMALL_BYTES, S3InputFile, S3OutputFile
from hive_ingest.storage.s3_options import S3Options
from hive_ingest.storage.s3_paths import RecentPaths, entries_of, folder_entry, key_of, prefix_of, with_folders_above
from hive_ingest.storage.s3_staged import KEPT_BYTES, StagedFiles
from hive_ingest.storage.s3_upload import RECORD_TYPE, SmallFile, Upload, UploadRecord

_log = logging.getLogger(__name__)

#: The most keys of one DeleteObjects.
_DELETE_AT_ONCE: Final = 1000
#: As many as two transactions of 10,000 files have.
_MOST_RENAMED: Final = 20_000
#: Follows all others in the order of keys.
_LAST_CHARACTER: Final = "\U0010ffff"


class S3Store(FileStore):
    """Paths are those of one bucket: `/` and the key."""

    # A request takes tens of milliseconds, whatever its size.
    parallel_files = 16
    can_rename_folders = False
    first_file_makes_folder = True
    spills_locally = True
    closes_slowly = True
    kept_bytes = KEPT_BYTES

    def __init__(self, bucket: str, options: Callable[[], S3Options] | None = None) -> None:
        """
        Args:
            bucket: Its name.
            options: Called at the first use; by default those of `core-site.xml`.
        """
        self._client = S3Client(bucket, options or (lambda: S3Options.of_bucket(bucket)))
        self._bucket = bucket
        self._lock = threading.Lock()
        #: The later name of a hidden file, and whether it may stay in memory until it gets that.
        self._announced: dict[str, tuple[str, bool]] = {}
        self._staged = StagedFiles()
        #: Announced files that were renamed: whoever cleans up removes them again, under names that nobody else uses.
        self._renamed = RecentPaths(_MOST_RENAMED)
        #: Folders that are there, as far as this process knows.
        self._known = RecentPaths()

    # -- files -------------------------------------------------------------------------------------

    def announce_rename(self, path: str, target: str, *, here: bool = False) -> None:
        with self._lock:
            self._announced[path] = target, here

    def create(self, path: str, *, sync: bool) -> OutputFile:
        with self._lock:
            target, stays_here = self._announced.pop(path, (None, False))
        if path in self._renamed:
            self._renamed.forget(path)
        self._require_folder("create", path)
        if target is None and self._head(path) is not None:  # a hidden name is taken when the file is finished
            raise PathExists(f"cannot create {self._client.uri(path)!r}: it exists already and is never replaced")
        return S3OutputFile(self._client, path, target, self._staged, stays_here=stays_here)

    def create_all(self, paths: Sequence[str], data: bytes, *, sync: bool) -> None:
        for first in {path.rpartition("/")[0]: path for path in paths}.values():
            self._require_folder("create", first)

        def put(path: str) -> None:
            self._client.put_new("create", path, key_of(path), data)

        with ThreadPoolExecutor(max(1, min(len(paths), self.parallel_files)), "hive-ingest-files") as pool:
            list(pool.map(put, paths))

    def open_input(self, path: str) -> pa.NativeFile:
        if (kept := self._staged.kept(path)) is not None:
            return pa.BufferReader(kept.content)
        return pa.PythonFile(S3InputFile(self._client, path), mode="r")

    def rename(self, source: str, target: str) -> None:
        self.publish(source, target)
        if source not in self._renamed:
            self._delete(source)
            self._renamed.add(source)

    def publish(self, source: str, target: str) -> None:
        what = f"{source} to {target}"
        if (kept := self._staged.kept(source)) is not None:
            kept.put(self._client, "rename", what, key_of(target))
            self._staged.drop(source)
            self._renamed.add(source)
            return
        staged = self._staged.take(source)
        if staged is None:
            record, size = self._look(source)
            if record is not None:
                staged = Upload.of_record(self._client, source, record)
            elif size > SMALL_BYTES:
                self._copy(what, source, target, size)
                return
            else:
                staged = SmallFile.read(self._client, source, key_of(source))
        if isinstance(staged, Upload):
            self._complete(what, staged, target)
        else:
            staged.put(self._client, "rename", what, key_of(target))

    def drop_kept(self, path: str) -> bool:
        return self._staged.drop(path)

    def remove_old_names(self, sources: Sequence[str]) -> None:
        there = [path for path in sources if path not in self._renamed]
        left = self._delete_if_permitted([*map(key_of, there)])
        for path in there:
            if key_of(path) not in left:
                self._renamed.add(path)

    def _complete(self, what: str, upload: Upload, target: str) -> None:
        upload.complete("rename", what)
        if upload.record.key != key_of(target):
            # The partition lies elsewhere than its name says. In the folder of its name it is not looked for.
            written = f"/{upload.record.key}"
            try:
                self._copy(what, written, target, self.file_size(written))
            finally:
                self._delete(written)

    def _copy(self, what: str, source: str, target: str, size: int) -> None:
        """Inside the store. Raises PathExists."""
        upload = Upload.begin(self._client, target, key_of(target))
        try:
            upload.add_copy(what, key_of(source), size)
            upload.complete("rename", what)
        except BaseException:
            upload.abort(what)
            raise

    def file_size(self, path: str) -> int:
        if (kept := self._staged.kept(path)) is not None:
            return len(kept.content)
        record, size = self._look(path)
        return size if record is None else Upload.of_record(self._client, path, record).size_bytes

    def delete_file(self, path: str) -> None:
        if path in self._renamed or self.drop_kept(path):
            return
        self._staged.take(path)
        found = self._head(path)
        if found is None:
            return
        if found.get("ContentType") == RECORD_TYPE:
            record, _ = self._look(path)
            if record is not None:
                Upload(self._client, record).abort(path)
        self._delete(path)

    def _look(self, path: str) -> tuple[UploadRecord | None, int]:
        """The record that a file is, or None, and the size of the object. Raises PathNotFound."""
        key = key_of(path)
        found = self._head(path)
        if found is None:
            raise PathNotFound(f"cannot look at {self._client.uri(path)!r}: no such file: it was removed")
        if found.get("ContentType") != RECORD_TYPE:
            return None, int(found["ContentLength"])
        _, data = self._client.get("look at", path, key)
        return UploadRecord.parsed(path, data), len(data)

    def _head(self, path: str) -> dict[str, Any] | None:
        key = key_of(path)
        if not key:
            return None
        found: dict[str, Any] | None = None
        with contextlib.suppress(PathNotFound):
            found = self._client.call("look at", path, lambda s3: s3.head_object(Bucket=self._bucket, Key=key))
        return found

    def _delete(self, path: str) -> None:
        key = key_of(path)
        self._client.call("delete", path, lambda s3: s3.delete_object(Bucket=self._bucket, Key=key))

    # -- folders -----------------------------------------------------------------------------------

    def make_folder(self, path: str, *, exist_ok: bool = True, parents: bool = True) -> list[str]:
        path = path.rstrip("/")
        if not exist_ok:
            return self._make_exclusively(path, parents)
        if path in self._known or self._is_folder(path):
            return []
        self._refuse_file(path)
        made = self._make_above(path, parents)
        try:
            self._mark(path)
        except PathExists:
            return made
        return [*made, path]

    def _make_exclusively(self, path: str, parents: bool) -> list[str]:
        """Of a new ACID folder, whose name no file gets. The marker may be gone since files were published in it."""
        made = self._make_above(path, parents)
        self._mark(path)
        try:
            self._require_alone(path, prefix_of(path))
        except StreamingIOFailure as failure:
            self._known.forget(path)
            self._withdraw(prefix_of(path), failure)
            raise
        return [*made, path]

    def make_folder_with(self, path: str, name: str, data: bytes) -> None:
        path = path.rstrip("/")
        self._require_folder("make folder", path)
        key, token = prefix_of(path) + name, uuid.uuid4().hex
        try:
            self._client.put_new("make folder", path, key, data, token=token)
        except PathExists:
            raise
        except StreamingIOFailure as failure:  # it may have been made: whoever withdraws the transaction cannot know
            with contextlib.suppress(StreamingIOFailure):
                if self._client.has_token(path, key, token):
                    self._withdraw(key, failure)
            raise
        try:
            self._require_alone(path, key)
        except StreamingIOFailure as failure:
            self._withdraw(key, failure)
            raise

    def _require_alone(self, path: str, key: str) -> None:
        """Raises PathExists if a folder holds another object than the one that has just made it."""
        if self._first_keys(path, 2) != [key]:
            raise PathExists(f"cannot make folder {self._client.uri(path)!r}: it exists already")

    def _withdraw(self, key: str, failure: StreamingIOFailure) -> None:
        """Remove an object after an error, to which one of the removal is added."""
        try:
            self._delete(f"/{key}")
        except StreamingIOFailure as error:
            failure.add_note(f"and /{key} could not be removed: {error}")

    def _make_above(self, path: str, parents: bool) -> list[str]:
        if parents:
            return self.make_folder(path.rpartition("/")[0])
        self._require_folder("make folder", path)
        return []

    def _mark(self, path: str) -> None:
        """Raises PathExists."""
        self._client.put_new("make folder", path, prefix_of(path), b"")
        self._known.add(path)

    def _refuse_file(self, path: str) -> None:
        if self._head(path) is not None:
            raise StreamingIOFailure(
                f"cannot make folder {self._client.uri(path)!r}: it is a file, not a folder: check the location"
            )

    def _require_folder(self, action: str, path: str) -> None:
        above = path.rpartition("/")[0]
        if above in self._known:
            return
        if not self._is_folder(above):
            raise PathNotFound(f"cannot {action} {self._client.uri(path)!r}: the folder above it is missing")
        self._known.add(above)

    def _is_folder(self, path: str) -> bool:
        return not prefix_of(path) or bool(self._first_keys(path, 1))

    def _first_keys(self, path: str, most: int, *, after: str = "") -> list[str]:
        """The first keys in a folder, with that of its marker; those that follow a key, if one is given."""
        options = {"Bucket": self._bucket, "Prefix": prefix_of(path), "MaxKeys": most} | (
            {"StartAfter": after} if after else {}
        )
        found = self._client.call("look at", path, lambda s3: s3.list_objects_v2(**options))
        return [str(each["Key"]) for each in found.get("Contents", ())]

    def sync_folders(self, paths: Iterable[str]) -> None:
        """Nothing: what was answered is stored."""

    def unmark_folders(self, folders: Iterable[str]) -> None:
        if not self._keeps_markers:
            self._delete_if_permitted(
                sorted({prefix_of(each) for path in folders for each in with_folders_above(path)})
            )

    @property
    def _keeps_markers(self) -> bool:
        return self._client.options.keep_markers

    def _delete_if_permitted(self, keys: Sequence[str]) -> set[str]:
        """Delete objects. Returns the keys of those that cannot be deleted; a missing one counts as deleted."""
        left: set[str] = set()
        for first in range(0, len(keys), _DELETE_AT_ONCE):
            batch = keys[first : first + _DELETE_AT_ONCE]
            try:
                errors = self._delete_at_once(f"/{batch[0]}", batch)
            except StreamingIOFailure as error:
                left.update(batch)
                _log.debug("hidden files or markers of folders stay: %s", error)
            else:
                left.update(str(each.get("Key")) for each in errors)
                if errors:  # such as a folder above the warehouse, where nothing may be removed
                    _log.debug("hidden files or markers of folders stay, the first is %s", errors[0])
        return left

    def _keep_folder_above(self, path: str) -> str | None:
        """Mark the folder in which something is to be removed if nothing else lies in it: it must not vanish.

        Returns that folder if nothing else lies in it.
        """
        above = path.rstrip("/").rpartition("/")[0]
        if not key_of(above):
            return None
        marker, prefix = prefix_of(above), prefix_of(path)
        found = self._first_keys(above, 2)
        if any(key != marker and not key.startswith(prefix) for key in found) or self._first_keys(
            above, 1, after=f"{prefix}{_LAST_CHARACTER}"
        ):
            return None
        if marker not in found:
            with contextlib.suppress(PathExists):
                self._mark(above)
        return above

    def _settle_marker(self, path: str) -> None:
        """Correct the marker of a folder that was emptied, and that another process has used meanwhile."""
        found = self._first_keys(path, 2)
        if not found:
            with contextlib.suppress(PathExists):
                self._mark(path)
        elif len(found) > 1 and found[0] == prefix_of(path) and not self._keeps_markers:
            self._delete_if_permitted(found[:1])

    def list(self, path: str, *, recursive: bool = False, missing_ok: bool = False) -> list[FileEntry]:
        path = path.rstrip("/")
        prefix = prefix_of(path)
        entries: dict[str, FileEntry] = {}
        is_there = not prefix
        for page in self._pages(path, prefix, "" if recursive else "/"):
            for each in page.get("CommonPrefixes", ()):
                folder = f"/{each['Prefix'].rstrip('/')}"
                entries[folder] = folder_entry(folder)
            for each in page.get("Contents", ()):
                is_there = True
                for entry in entries_of(path, each["Key"], int(each["Size"])):
                    entries.setdefault(entry.path, entry)
        if not is_there and not entries:
            if self._head(path) is not None:
                uri = self._client.uri(path)
                raise StreamingIOFailure(f"cannot list {uri!r}: it is a file, not a folder: check the location")
            if not missing_ok:
                raise PathNotFound(f"cannot list {self._client.uri(path)!r}: there is no such folder, it is missing")
        return sorted(entries.values(), key=lambda entry: entry.path)

    def _pages(self, path: str, prefix: str, delimiter: str) -> Sequence[Any]:
        def pages(s3: Any) -> Sequence[Any]:
            paginator = s3.get_paginator("list_objects_v2")
            return list(paginator.paginate(Bucket=self._bucket, Prefix=prefix, Delimiter=delimiter))

        return self._client.call("list", path, pages)

    def exists(self, path: str) -> bool:
        return self._is_folder(path) or self._head(path) is not None

    def delete_empty_folder(self, path: str) -> bool:
        if self.list(path, missing_ok=True):
            return False
        self._known.forget(path)
        emptied = self._keep_folder_above(path)
        self._delete(f"{path.rstrip('/')}/")
        if emptied is not None:
            self._settle_marker(emptied)
        return True

    def delete_folder(self, path: str) -> None:
        while not self.delete_some(path):
            pass

    def delete_some(self, path: str) -> bool:
        prefix = prefix_of(path)
        self._known.forget(path)
        for upload in self._uploads(path, prefix):
            upload.abort(path)
        page = self._client.call(
            "list", path, lambda s3: s3.list_objects_v2(Bucket=self._bucket, Prefix=prefix, MaxKeys=_DELETE_AT_ONCE)
        )
        keys = [each["Key"] for each in page.get("Contents", ())]
        has_more = bool(page.get("IsTruncated"))
        emptied = None if has_more else self._keep_folder_above(path)
        if keys:
            self._delete_keys(path, keys)
        if emptied is not None:
            self._settle_marker(emptied)
        return not has_more

    def _uploads(self, path: str, prefix: str) -> Sequence[Upload]:
        """Uploads that were begun in a folder and not completed."""

        def uploads(s3: Any) -> Sequence[Any]:
            pages = s3.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket, Prefix=prefix)
            return [each for page in pages for each in page.get("Uploads", ())]

        found = self._client.call("list", path, uploads)
        # Not every service takes a prefix here.
        ours = [each for each in found if each["Key"].startswith(prefix)]
        return [Upload(self._client, UploadRecord(each["Key"], each["UploadId"], "")) for each in ours]

    def _delete_keys(self, path: str, keys: Sequence[str]) -> None:
        if errors := self._delete_at_once(path, keys):
            first = errors[0]
            raise StreamingIOFailure(
                f"cannot delete folder {self._client.uri(path)!r}: {len(errors)} files stay, the first is "
                f"{first.get('Key')!r} ({first.get('Code')}: {first.get('Message')})"
            )

    def _delete_at_once(self, path: str, keys: Sequence[str]) -> Sequence[Any]:
        """Delete objects with one request. Returns the errors, by key."""
        wanted = {"Objects": [{"Key": key} for key in keys], "Quiet": True}

        def delete(s3: Any) -> Sequence[Any]:
            return list(s3.delete_objects(Bucket=self._bucket, Delete=wanted).get("Errors", ()))

        return self._client.call("delete folder", path, delete)

    def rename_folder(self, source: str, target: str) -> None:
        raise UnsupportedFeature(
            f"cannot rename {self._client.uri(source)!r} to {target!r}: an object store cannot rename a folder in one "
            "step; create a new table and copy the rows"
        )
