"""Which columns a link can carry: checked before anything is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_log import SENDER

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

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
