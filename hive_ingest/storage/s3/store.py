"""S3, and the stores that have its interface, through boto3.

Folders are what Hadoop's S3A makes of them: a folder is there if an object lies in it, or an empty object with its
name and a `/`, its marker. S3A before Hadoop 3.3.1 takes a folder with a marker for an empty one, and would remove
the marker alone; so markers are removed when files are published in the folder, and made again when it is emptied.

A new name is taken by a conditional request (`If-None-Match: *`), so of several writers one gets it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from hive_ingest.errors import PathExists, PathNotFound, StreamingIOFailure
from hive_ingest.storage.file_store import FileEntry, OutputFile
from hive_ingest.storage.objects.paths import entries_of, folder_entry, key_of, prefix_of, with_folders_above
from hive_ingest.storage.objects.records import RECORD_TYPE
from hive_ingest.storage.objects.staged import StagedFiles
from hive_ingest.storage.objects.store import ObjectStore
from hive_ingest.storage.s3.client import S3Client
from hive_ingest.storage.s3.files import SMALL_BYTES, S3InputFile, S3OutputFile
from hive_ingest.storage.s3.options import S3Options
from hive_ingest.storage.s3.upload import Upload, UploadRecord, read_small

_log = logging.getLogger(__name__)

#: The most keys of one DeleteObjects.
_DELETE_AT_ONCE: Final = 1000
#: Follows all others in the order of keys.
_LAST_CHARACTER: Final = "\U0010ffff"


class S3Store(ObjectStore):
    """Paths are those of one bucket: `/` and the key."""

    def __init__(self, bucket: str, options: Callable[[], S3Options] | None = None) -> None:
        """
        Args:
            bucket: Its name.
            options: Called at the first use; by default those of `core-site.xml`.
        """
        self._client = S3Client(bucket, options or (lambda: S3Options.of_bucket(bucket)))
        self._bucket = bucket
        self._staged = StagedFiles[Upload]()
        super().__init__(self._client, self._staged)

    # -- files -------------------------------------------------------------------------------------

    def _new_file(self, path: str, target: str | None, *, stays_here: bool) -> OutputFile:
        return S3OutputFile(self._client, path, target, self._staged, stays_here=stays_here)

    def open_input(self, path: str) -> pa.NativeFile:
        if (kept := self._staged.kept(path)) is not None:
            return pa.BufferReader(kept.content)
        return pa.PythonFile(S3InputFile(self._client, path), mode="r")

    def publish(self, source: str, target: str) -> None:
        what = f"{source} to {target}"
        if self._publish_kept(what, source, target):
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
                staged = read_small(self._client, source, key_of(source))
        if isinstance(staged, Upload):
            self._complete(what, staged, target)
        else:
            staged.put(self._client, "rename", what, key_of(target))

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

    def _marker_of(self, path: str) -> str:
        return prefix_of(path)

    def _put_marker(self, path: str) -> None:
        self._client.put_new("make folder", path, prefix_of(path), b"")

    def _require_alone(self, path: str, key: str) -> None:
        if self._first_keys(path, 2) != [key]:
            raise PathExists(f"cannot make folder {self._client.uri(path)!r}: it exists already")

    def _is_file(self, path: str) -> bool:
        return self._head(path) is not None

    def _is_folder(self, path: str) -> bool:
        return not prefix_of(path) or bool(self._first_keys(path, 1))

    def _first_keys(self, path: str, most: int, *, after: str = "") -> list[str]:
        """The first keys in a folder, with that of its marker; those that follow a key, if one is given."""
        options = {"Bucket": self._bucket, "Prefix": prefix_of(path), "MaxKeys": most} | (
            {"StartAfter": after} if after else {}
        )
        found = self._client.call("look at", path, lambda s3: s3.list_objects_v2(**options))
        return [str(each["Key"]) for each in found.get("Contents", ())]

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
            failure = self._missing_or_file(path)
            if not (missing_ok and isinstance(failure, PathNotFound)):
                raise failure
        return sorted(entries.values(), key=lambda entry: entry.path)

    def _pages(self, path: str, prefix: str, delimiter: str) -> Sequence[Any]:
        def pages(s3: Any) -> Sequence[Any]:
            paginator = s3.get_paginator("list_objects_v2")
            return list(paginator.paginate(Bucket=self._bucket, Prefix=prefix, Delimiter=delimiter))

        return self._client.call("list", path, pages)

    def delete_empty_folder(self, path: str) -> bool:
        if self.list(path, missing_ok=True):
            return False
        self._known.forget(path)
        emptied = self._keep_folder_above(path)
        self._delete(f"{path.rstrip('/')}/")
        if emptied is not None:
            self._settle_marker(emptied)
        return True

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
