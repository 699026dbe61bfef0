"""The columns of a link: what they are, and how they change while it is in use.

``link.json`` has the columns that the link was created with, if any. Every change is a numbered
commit to the ledger: of two at once, one finds its number taken, reads again and adds its columns
to the other's. Columns are only ever added behind those that are there, so a version is a
number of columns, and the commit of a batch names the first version that has all of its columns.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_ledger import LinkLedger, LinkLedgerView, create_ledger
from flowcontrol.ledger.link_log import SENDER
from flowcontrol.ledger.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


# --- Which columns a link can carry: checked before anything is written.


CHANNEL = "_link_channel"
"""Hidden column: the channel of a row. It does not go into files."""

RESERVED = (CHANNEL, SENDER)


def check_columns(place: str, schema: StructType, key: Sequence[str] | None) -> None:
    """Refuse columns that a link cannot carry.

    Raises LinkError: naming everything that is wrong.
    """
    wrong = [*_wrong_names(schema.fieldNames()), *_wrong_types(schema)]
    missing = [name for name in key or () if name not in schema.fieldNames()]
    if missing:
        names = ", ".join(schema.fieldNames())
        wrong.append(f"the key {', '.join(missing)} is not among the columns {names}")
    if wrong:
        raise LinkError(f"the link {place} cannot carry these rows: {'; '.join(wrong)}")


def types_of(schema: StructType) -> dict[str, str]:
    """Return Spark's name of the type of each column."""
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def quoted(name: str) -> str:
    """Return a column's name as Spark's functions take it: a dot in it is not a path."""
    return f"`{name.replace('`', '``')}`"


def is_quoted(name: str) -> bool:
    """Whether Spark misreads a column's name unless it is quoted."""
    return "." in name or "`" in name


def _wrong_names(names: Sequence[str]) -> Iterator[str]:
    if not names:
        yield "they have no columns: needs at least one"
    for name, count in Counter(name.lower() for name in names).items():
        if count > 1:
            yield f"{count} columns are called {name}, upper or lower case alike: rename them"
        if name in RESERVED:
            yield f"a column is called {name}, which the link keeps for itself: rename it"


def _wrong_types(schema: StructType) -> Iterator[str]:
    for field in schema.fields:
        for kind in _leaves(field.dataType):
            if not _is_carried(kind):
                shown = kind.simpleString()
                yield (
                    f"column {field.name} has the type {shown}, which its files do not keep: "
                    "drop it, or cast it, to string for example"
                )
                break


def _leaves(kind: DataType) -> Iterator[DataType]:
    """Yield the types of which a type is made."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, ArrayType):
        yield from _leaves(kind.elementType)
    elif isinstance(kind, MapType):
        yield from _leaves(kind.keyType)
        yield from _leaves(kind.valueType)
    elif isinstance(kind, StructType) and kind.fields:
        for field in kind.fields:
            yield from _leaves(field.dataType)
    else:
        yield kind


def _is_carried(kind: DataType) -> bool:
    from pyspark.sql import types

    carried = (
        *(types.StringType, types.BinaryType, types.BooleanType, types.DecimalType),
        *(types.ByteType, types.ShortType, types.IntegerType, types.LongType),
        *(types.FloatType, types.DoubleType),
        *(types.DateType, types.TimestampType, types.TimestampNTZType),
    )
    return type(kind) in carried


COLUMNS = "settings/columns"
"""The ledger's member whose newest commit holds the columns."""

ATTEMPTS = 20
"""Times that a change is tried while others change the columns too."""


@dataclass(frozen=True)
class Columns:
    """Columns of a link."""

    schema: str = ""  # Spark's JSON of all of them; empty as long as nobody has brought any
    counts: tuple[int, ...] = ()  # How many there were in each version

    @property
    def fields(self) -> list[dict[str, Any]]:
        """Name and type of each, as Spark writes them."""
        found: list[dict[str, Any]] = json.loads(self.schema)["fields"] if self.schema else []
        return found

    @property
    def types(self) -> dict[str, str]:
        """The type of each column by its name."""
        return {one["name"]: json.dumps(one["type"], sort_keys=True) for one in self.fields}

    def names(self, version: int) -> list[str]:
        """Return the names of a version's columns."""
        return [one["name"] for one in self.fields[: self.counts[version]]]

    def version_with(self, names: Iterable[str]) -> int:
        """Return the first version that has all of these columns."""
        places = {one["name"]: place for place, one in enumerate(self.fields)}
        last = max((places[name] for name in names if name in places), default=0)
        return next((v for v, count in enumerate(self.counts) if count > last), 0)

    def text(self) -> str:
        """Return names and types for a message."""
        return ", ".join(f"{name} {kind.strip(chr(34))}" for name, kind in self.types.items())

    def with_more(self, other: Columns) -> Columns:
        """Return these columns and behind them those of others, as a version of its own."""
        more = [one for one in other.fields if one["name"] not in self.types]
        if not more:
            return self
        whole = {**json.loads(other.schema), "fields": [*self.fields, *more]}
        count = len(self.fields) + len(more)
        return Columns(json.dumps(whole, separators=(",", ":")), (*self.counts, count))


def made_columns(schema: str) -> Columns:
    """Return the columns of a schema alone: a link's first version."""
    return Columns().with_more(Columns(schema)) if schema else Columns()


def columns_of(made: str, view: LinkLedgerView) -> Columns:
    """Return a link's columns as its ledger has them."""
    latest = view.members.get(COLUMNS)
    if latest is None:
        return made_columns(made)
    return Columns(latest.state["schema"], tuple(latest.state["counts"]))


def agree_columns(storage: Storage, made: str, schema: str, *, evolve: bool) -> Columns:
    """Verify that a link carries these columns; add those that it lacks if asked to.

    ``evolve``: whether columns may be added.

    Raises LinkError if a column has another type there, one of the first version is missing, or
    there are others and none may be added.
    """
    create_ledger(storage.child("ledger"))
    for _ in range(ATTEMPTS):
        ledger = LinkLedger(storage.child("ledger"), COLUMNS)
        try:
            current = columns_of(made, ledger)
            wanted = _merged(storage, current, Columns(schema), evolve=evolve)
            if wanted == current:
                return current
            number = ledger.next_number
            try:
                ledger.commit([], {"schema": wanted.schema, "counts": list(wanted.counts)})
            except LinkError:
                ledger.refresh()
                if ledger.next_number == number:
                    raise
                continue  # another process was first: add these columns to its
            return wanted
        finally:
            ledger.close()
    raise LinkError(f"{storage}: its columns are changed by others again and again; try again")


def _merged(storage: Storage, current: Columns, own: Columns, *, evolve: bool) -> Columns:
    """Return the columns that a link has with those of some rows."""
    if not current.counts:
        return made_columns(own.schema)
    here, there = own.types, current.types
    changed = [name for name, kind in here.items() if there.get(name, kind) != kind]
    missing = [name for name in current.names(0) if name not in here]
    if missing or changed or (not evolve and set(here) - set(there)):
        text = (
            f"the link {storage} carries other columns: ({current.text()}) there, ({own.text()}) "
            "here. Use a new link, or let this one take more columns with "
            "Link(..., evolve_schema=True)"
        )
        if evolve:
            text += "; a column cannot be dropped or change its type"
        raise LinkError(text)
    return current.with_more(own)


def check_known(
    view: LinkLedgerView, made: str, version: int, known: Sequence[str] | None, who: str
) -> None:
    """Refuse rows with columns that a query does not know.

    ``known``: columns that the query has had since it started; None if it ignores others.

    Raises LinkError: naming the columns.
    """
    if known is None:
        return
    columns = columns_of(made, view)
    if version >= len(columns.counts):  # changed since the last look
        view.refresh()
        columns = columns_of(made, view)
    new = [name for name in columns.names(version) if name not in known]
    if new:
        shown = ", ".join(f"{name} {columns.types[name].strip(chr(34))}" for name in new)
        raise LinkError(
            f"{view.storage}: rows have come with columns that receiver {who!r} does not know: "
            f"{shown}. They were added since its query started; nothing of these rows was read. "
            "Start the query again, with the same checkpoint: then it has them, if its sink takes "
            "them. Or go on without them with link.receive(..., new_columns='ignore')"
        )
