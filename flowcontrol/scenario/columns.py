"""Types of the columns of replayed rows: which is a time, which is a number.

pyarrow and deltalake are imported only if a scenario names such a column.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from flowcontrol.scenario.inputs import Replayed, open_csv, read_rows
from flowcontrol.scenario.problems import known
from flowcontrol.scenario.stage_models import Input

if TYPE_CHECKING:
    import pyarrow as pa


def column_type(source: Input, column: str) -> pa.DataType:
    """Return the type of a column of an input.

    Of a CSV file what pyarrow infers from its first megabyte, since a check should not read all of
    it; from all its rows if the first have none. A later row of another type is refused before a
    run begins (:class:`flowcontrol.layout.row_stamps.RowStamper`). Raises Exception: whatever the
    reader of the format raises if the rows cannot be read.
    """
    if source.format == "parquet":
        import pyarrow.dataset as ds

        return ds.dataset(source.path, format="parquet").schema.field(column).type
    if source.format == "delta":
        from deltalake import DeltaTable

        return DeltaTable(source.path).to_pyarrow_dataset().schema.field(column).type
    return _type_in_csv(source, column)


def _type_in_csv(source: Input, column: str) -> pa.DataType:
    import pyarrow as pa
    import pyarrow.csv as csv

    convert = csv.ConvertOptions(include_columns=[column])
    with open_csv(Path(source.path)) as stream:
        first = csv.open_csv(stream, convert_options=convert).schema.field(column).type
    if not pa.types.is_null(first):
        return first
    batch = next(read_rows(source, [column]), None)
    return first if batch is None else batch.schema.field(column).type


def time_column_faults(rows: Replayed, column: str) -> Iterator[str]:
    """Yield why a column has no event times: it is not there, or is of another type."""
    import pyarrow as pa

    for kind in _types(rows, column):
        if isinstance(kind, str):
            yield kind
        elif not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            text = f"{column!r} is not a time: its type is {kind}, and event time needs a timestamp"
            yield f"{text} or a date: name another column, or write the rows with one"


def number_column_faults(rows: Replayed, column: str) -> Iterator[str]:
    """Yield why a column cannot be added up: it is not there, or holds no numbers."""
    import pyarrow as pa

    for kind in _types(rows, column):
        if isinstance(kind, str):
            yield kind
        elif not any(
            is_kind(kind)
            for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        ):
            text = f"{column!r} holds no numbers: its type is {kind}"
            yield f"{text}: name a column of whole or decimal numbers, or use count"


def _types(rows: Replayed, column: str) -> Iterator[pa.DataType | str]:
    """Yield the type of a column, or why there is none."""
    source, columns = rows
    if column not in columns:
        yield known(column, columns, "column")
        return
    try:
        yield column_type(source, column)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        yield f"{column!r} of {Path(source.path).name} cannot be read: {reason}"
