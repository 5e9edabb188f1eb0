"""A filter over the table's columns: which of them it reads, and which rows it keeps."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.errors import ConfigurationError

#: How an expression prints a reference by position (`pc.field(0)`), from which no name can be learned.
_BY_POSITION = "FieldPath("


class Predicate:
    """A `pyarrow.compute.Expression` bound to a schema. A row for which it is null is not kept."""

    def __init__(self, expression: pc.Expression, schema: pa.Schema) -> None:
        """Raises ConfigurationError when the expression does not fit the schema, or is not boolean."""
        self.expression = expression
        self._bind(schema)
        #: Names of the columns that it reads.
        self.columns = frozenset(self._referenced(schema))

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """True for each row to keep. `batch` has at least `columns`.

        Raises ConfigurationError when the expression fails on a row, as a division by zero does.
        """
        try:
            return _evaluate(self.expression, batch)
        except pa.ArrowException as error:
            raise ConfigurationError(f"the filter {self.expression} fails on a row: {error}") from error

    def _bind(self, schema: pa.Schema) -> None:
        try:
            found = _evaluate(self.expression, _no_rows(schema)).type
        except (pa.ArrowException, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"the filter {self.expression} does not fit the table ({', '.join(schema.names)}): {error}"
            ) from error
        if not pa.types.is_boolean(found):
            raise ConfigurationError(f"the filter {self.expression} gives {found}, not true or false: compare it")

    def _referenced(self, schema: pa.Schema) -> list[str]:
        """A column is read if the expression cannot be bound without it: pyarrow does not say it otherwise."""
        if _BY_POSITION in str(self.expression):
            return list(schema.names)
        return [name for i, name in enumerate(schema.names) if not self._binds(schema.remove(i))]

    def _binds(self, schema: pa.Schema) -> bool:
        try:
            _evaluate(self.expression, _no_rows(schema))
        except pa.ArrowInvalid:
            return False
        return True


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _evaluate(expression: pc.Expression, batch: pa.RecordBatch) -> Any:
    # Not before it is needed: it loads pandas, where that is installed, for longer than all the rest of this package.
    import pyarrow.acero as acero

    source = acero.TableSourceNodeOptions(pa.Table.from_batches([batch]))
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", source),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["keep"])),
        ]
    )
    # Threads would give the blocks of a large batch back in any order.
    return plan.to_table(use_threads=False).column(0).combine_chunks()
