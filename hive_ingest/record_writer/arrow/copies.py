"""Copies of Arrow data: data accepted by `write()` does not change, whatever the caller does with its memory.

Whether the memory of an Arrow array can change cannot be determined: buffers over numpy arrays, memory-mapped files and
other libraries' memory all look alike (`Buffer.is_mutable` is false for a read-only view of an array that its owner
still changes). So every batch is copied, at some 3 to 5 GB/s: about 4 % of the processor time of a transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

#: Makes a copy that shares no memory with the batch.
Copy = Callable[[pa.RecordBatch], pa.RecordBatch]


def copy_of(schema: pa.Schema) -> Copy:
    """The function that copies batches of `schema`, chosen once: inspecting the types costs more than copying rows.

    Dictionaries and views are resolved (as values and `large_string` or `large_binary`), because a slice of them
    refers to all values of the array, and each copy of a slice would hold them all. Nested ones are copied unchanged.
    """
    owned = pa.schema([field.with_type(owned_type(field.type)) for field in schema])
    copy = _through_stream if any(_holds_dictionary(type_) for type_ in owned.types) else _serialized
    if owned.equals(schema):
        return copy

    def resolve_and_copy(batch: pa.RecordBatch) -> pa.RecordBatch:
        return copy(pa.RecordBatch.from_arrays([_resolved(column) for column in batch.columns], schema=owned))

    return resolve_and_copy


def _serialized(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema)


def _through_stream(batch: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def owned_type(type_: pa.DataType) -> pa.DataType:
    """The type that a column has in a copy."""
    if pat.is_dictionary(type_):
        return owned_type(type_.value_type)
    if pat.is_string_view(type_):
        return pa.large_string()
    return pa.large_binary() if pat.is_binary_view(type_) else type_


def _resolved(array: pa.Array) -> pa.Array:
    if pat.is_dictionary(array.type):
        # The dictionary first: Arrow cannot take from views.
        values = _resolved(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    type_ = owned_type(array.type)
    return array if type_ == array.type else array.cast(type_)


def _holds_dictionary(type_: Any) -> bool:
    if pat.is_dictionary(type_):
        return True
    if isinstance(type_, pa.BaseExtensionType):
        return _holds_dictionary(type_.storage_type)
    if pat.is_run_end_encoded(type_):
        return _holds_dictionary(type_.value_type)
    return any(_holds_dictionary(type_.field(i).type) for i in range(type_.num_fields))
