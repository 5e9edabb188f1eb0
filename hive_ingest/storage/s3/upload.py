"""Multipart uploads: begun by one process, and completed or aborted by any other.

A file that is to be renamed is uploaded under its later name, and its upload is not completed. No listing shows it
and nothing can read it. Under the hidden name lies a small object, the record of the upload, so that whatever lists,
removes or renames hidden files need not know of uploads. To rename is to complete the upload, provided that no object
has the name.

An upload takes four requests at least. So a small file lies under its hidden name itself, and to rename it is to write
it once more; or it stays in the memory of the process that renames it (see `objects.staged`).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from hive_ingest.errors import PathNotFound
from hive_ingest.storage.objects.records import Record
from hive_ingest.storage.objects.staged import SmallFile
from hive_ingest.storage.s3.client import TOKEN, S3Client, UploadMissing

_COPY_PART_BYTES: Final = 1 << 30
#: The store adds those of each part to its answers, and wants them to complete the upload.
_CHECKSUMS: Final = ("ETag", "ChecksumCRC32", "ChecksumCRC32C", "ChecksumCRC64NVME", "ChecksumSHA1", "ChecksumSHA256")


@dataclass(frozen=True, slots=True)
class UploadRecord(Record):
    """What another process needs to complete or to abort an upload."""

    key: str
    upload_id: str
    token: str


def read_small(client: S3Client, path: str, key: str) -> SmallFile:
    """An object that was written to be renamed."""
    answer, content = client.get("read", path, key)
    return SmallFile(content, answer["Metadata"].get(TOKEN) or uuid.uuid4().hex)


@dataclass(slots=True)
class Upload:
    """A multipart upload. Parts may be uploaded by several threads, in any order."""

    client: S3Client
    record: UploadRecord
    parts: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def begin(cls, client: S3Client, path: str, key: str) -> Upload:
        token = uuid.uuid4().hex

        def create(s3: Any) -> str:
            answer = s3.create_multipart_upload(Bucket=client.bucket, Key=key, Metadata={TOKEN: token})
            return str(answer["UploadId"])

        return cls(client, UploadRecord(key, client.call("create", path, create), token))

    @classmethod
    def of_record(cls, client: S3Client, path: str, record: UploadRecord) -> Upload:
        """With the parts that are in the store: none if the upload is completed or aborted."""

        def list_parts(s3: Any) -> list[dict[str, Any]]:
            pages = s3.get_paginator("list_parts").paginate(
                Bucket=client.bucket, Key=record.key, UploadId=record.upload_id
            )
            return [part for page in pages for part in page.get("Parts", ())]

        try:
            return cls(client, record, client.call("look at", path, list_parts))
        except (PathNotFound, UploadMissing):
            return cls(client, record)

    @property
    def size_bytes(self) -> int:
        """Of an upload from a record."""
        return sum(int(part["Size"]) for part in self.parts)

    def add(self, path: str, number: int, data: bytes | bytearray) -> None:
        """Upload a part; they are counted from 1. All but the last have at least 5 MiB."""

        def upload(s3: Any) -> dict[str, Any]:
            answer: dict[str, Any] = s3.upload_part(**self._address, PartNumber=number, Body=data)
            return answer

        self.parts.append({"PartNumber": number, **self.client.call("write", path, upload)})

    def add_copy(self, path: str, source_key: str, size: int) -> None:
        """Copy an object inside the store."""
        for start in range(0, size, _COPY_PART_BYTES):
            self._add_range(path, source_key, f"bytes={start}-{min(start + _COPY_PART_BYTES, size) - 1}")

    def _add_range(self, path: str, source_key: str, bytes_range: str) -> None:
        number = len(self.parts) + 1

        def copy(s3: Any) -> dict[str, Any]:
            answer: dict[str, Any] = s3.upload_part_copy(
                **self._address,
                PartNumber=number,
                CopySource={"Bucket": self.client.bucket, "Key": source_key},
                CopySourceRange=bytes_range,
            )["CopyPartResult"]
            return answer

        self.parts.append({"PartNumber": number, **self.client.call("copy", path, copy)})

    def complete(self, action: str, path: str) -> None:
        """Make it an object. Raises PathExists; the existing object stays as it is."""
        in_order = sorted(self.parts, key=lambda part: int(part["PartNumber"]))
        parts = [{name: part[name] for name in ("PartNumber", *_CHECKSUMS) if name in part} for part in in_order]

        def complete(s3: Any) -> None:
            s3.complete_multipart_upload(**self._address, MultipartUpload={"Parts": parts}, IfNoneMatch="*")

        if parts:
            self.client.take_name(action, path, self.record.key, self.record.token, complete)
        elif not self.is_complete(path):
            raise UploadMissing(f"cannot {action} {path!r}: its upload was removed: write the transaction again")

    def is_complete(self, path: str) -> bool:
        """Whether the object under its name is this upload's."""
        return self.client.has_token(path, self.record.key, self.record.token)

    def abort(self, path: str) -> None:
        """Remove all parts. One that is gone is not an error."""
        try:
            self.client.call("remove", path, lambda s3: s3.abort_multipart_upload(**self._address))
        except (PathNotFound, UploadMissing):
            return

    @property
    def _address(self) -> dict[str, Any]:
        return {"Bucket": self.client.bucket, "Key": self.record.key, "UploadId": self.record.upload_id}
