"""What the rules must know of replayed rows: how many there are, where a key sends each, its stamp.

Row *i* of an input is record *i // n* of subtask *i mod n* (*n* subtasks). Which channel a record
goes to decides when a task blocks, so it is known beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from flowcontrol.arrays import Ints, pa
from flowcontrol.errors import RunError
from flowcontrol.job.row_columns import key_texts
from flowcontrol.job.row_keys import NO_KEYS, RowKeys
from flowcontrol.protocol.partitioners import channel_of_key, default_max_parallelism
from flowcontrol.scenario.inputs import read_rows
from flowcontrol.scenario.stage_models import Input


@dataclass(frozen=True)
class Replayed:
    """The replayed rows of a job, as far as the rules look at them.

    Attributes
    ----------
    limits : dict of (str, int) to int
        By stage and subtask of a replaying source: records that it has.
    tables : dict of (str, int) to ndarray of int64, shape (records,)
        By edge that a key routes, and its sender: subpartition of each record.
    stamps : dict of (str, int) to ndarray of int64, shape (records,)
        By stage and subtask of a source whose rows have event times, or are in windows: the stamp
        of each record; its time is 0 where times are made.
    keys : RowKeys
        Which key and value an id of these stands for.
    """

    limits: dict[tuple[str, int], int] = field(default_factory=dict)
    tables: dict[tuple[str, int], Ints] = field(default_factory=dict)
    stamps: dict[tuple[str, int], Ints] = field(default_factory=dict)
    keys: RowKeys = NO_KEYS


NO_ROWS = Replayed()
"""Of a job whose sources make their rows up."""


def read_columns(stage: str, source: Input, names: Sequence[str]) -> list[pa.RecordBatch]:
    """Read columns of an input whole.

    Parameters
    ----------
    stage : str
        The stage that replays it.
    source : Input
        What to read.
    names : sequence of str
        The columns; none: the first one.

    Raises
    ------
    RunError
        If the input cannot be read.
    """
    try:
        return list(read_rows(source, names))
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        text = f"stage {stage}: its input {source.path} cannot be read: {reason}"
        raise RunError(text) from error


def routes_of_keys(keys: pa.ChunkedArray, width: int) -> Ints:
    """Return the subpartition of each row by its key.

    Parameters
    ----------
    keys : pyarrow.ChunkedArray
        The key column, of any type that has a text.
    width : int
        Subpartitions.

    Notes
    -----
    ``KeyGroupStreamPartitioner`` on the key's text. A missing key is the text ``null``; a moment
    is written in microseconds, whichever unit the input has it in.
    """
    return _coded(keys, width)[1]


def first_rows_of_keys(keys: pa.ChunkedArray, width: int) -> list[Ints]:
    """Return which of the rows that a subpartition is sent are the first with their key.

    Parameters
    ----------
    keys : pyarrow.ChunkedArray
        The key column.
    width : int
        Subpartitions.

    Returns
    -------
    list of ndarray of int64, shape (keys,)
        Per subpartition, ascending: a place for each of its keys, among its rows in the order of
        the input.
    """
    codes, routes = _coded(keys, width)
    found = []
    for index in range(width):
        _, firsts = np.unique(codes[routes == index], return_index=True)
        found.append(np.sort(firsts).astype(np.int64))
    return found


def _coded(keys: pa.ChunkedArray, width: int) -> tuple[Ints, Ints]:
    """Return a number for each row's key, and its subpartition."""
    texts = pa.chunked_array([key_texts(chunk) for chunk in keys.chunks], pa.string())
    coded = texts.combine_chunks().dictionary_encode()
    groups = default_max_parallelism(width)
    names = [str(key) for key in coded.dictionary.to_pylist()]
    of_key = np.array([channel_of_key(name, width, groups) for name in names] or [0], np.int64)
    codes = np.asarray(coded.indices.to_numpy(zero_copy_only=False), np.int64)
    return codes, of_key[codes]
