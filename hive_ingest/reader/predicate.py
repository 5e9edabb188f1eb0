"""A filter over the table's columns: which of them it reads, and which rows it keeps."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.errors import ConfigurationError
from hive_ingest.reader.stripe_filter import FieldPath, StripeFilter
from hive_ingest.reader.where import Where

#: How an expression prints a reference by position (`pc.field(0)`), from which no name can be learned.
_BY_POSITION = "FieldPath("


class Predicate:
    """A filter bound to a schema. A row for which it is null is not kept."""

    def __init__(
        self,
        schema: pa.Schema,
        *,
        where: Where | None = None,
        filter: pc.Expression | None = None,
        filter_stripes: StripeFilter | None = None,
    ) -> None:
        """
        Args:
            schema: All columns that the filter may use.
            where: A filter that was text.
            filter: A boolean Arrow expression. If both are given, both must be true.
            filter_stripes: What is known of the stripes with rows for which `filter` is true.

        Raises:
            ConfigurationError: The expression does not fit the schema, or is not boolean.
        """
        given = [*([where.expression] if where else []), *([filter] if filter is not None else [])]
        self.expression: pc.Expression = reduce(operator.and_, given)
        self._bind(schema)
        #: The columns and fields that it reads. Of an Arrow expression, only columns are known.
        self.paths: frozenset[FieldPath] = where.paths if where else frozenset()
        if filter is not None:
            self.paths |= {(name,) for name in _referenced(filter, schema)}
        of_stripes = (where.stripes if where else None, filter_stripes)
        #: All of them must find that a stripe may have a row to keep.
        self.stripes: tuple[StripeFilter, ...] = tuple(each for each in of_stripes if each is not None)

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


def _referenced(expression: pc.Expression, schema: pa.Schema) -> list[str]:
    """A column is read if the expression cannot be bound without it: pyarrow does not say it otherwise."""
    if _BY_POSITION in str(expression):
        return list(schema.names)
    return [name for i, name in enumerate(schema.names) if not _binds(expression, schema.remove(i))]


def _binds(expression: pc.Expression, schema: pa.Schema) -> bool:
    try:
        _evaluate(expression, _no_rows(schema))
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
