"""Real rows that a source replays: read in their order, on whichever clock.

pyarrow and deltalake are imported when there is something to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flowcontrol.scenario.inputs import open_csv
from flowcontrol.scenario.models import Input

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_rows"]

CSV_BATCH_ROWS = 65_536


def read_rows(source: Input, columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an input.

    Parameters
    ----------
    source : Input
        What to read.
    columns : sequence of str, optional
        Only these; by default all.

    Yields
    ------
    pyarrow.RecordBatch
        The next rows, however many.

    Raises
    ------
    Exception
        Whatever the reader of the format raises if the input cannot be read.
    """
    chosen = list(columns) or None
    if source.format == "csv":
        import pyarrow.csv as csv

        # One block size for the whole file, so that types are inferred from all its rows.
        convert = csv.ConvertOptions(include_columns=chosen)
        with open_csv(source.path) as stream:
            table = csv.read_csv(stream, convert_options=convert)
            yield from table.to_batches(max_chunksize=CSV_BATCH_ROWS)
    elif source.format == "parquet":
        import pyarrow.dataset as ds

        yield from ds.dataset(source.path, format="parquet").to_batches(columns=chosen)
    else:
        from deltalake import DeltaTable

        dataset = DeltaTable(str(source.path)).to_pyarrow_dataset()
        yield from dataset.to_batches(columns=chosen)
