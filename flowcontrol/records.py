"""Every column of every result and ledger table, once: name, type, unit, meaning.

The columns stand in ``tables.yaml``. What a run writes, what the report reads and what the
documentation lists are all made from them, so that a column cannot mean two things in two places.
pyarrow is loaded when a schema is asked for.

Conventions of all tables
-------------------------
- Times are emulated seconds since the start of the run; a rate is per emulated second.
- *Cumulative* columns count since the start of the run; columns that *cover the interval*
  describe the time since the sample before; *levels* are those of the moment ``t_s``.
- One kind of nothing per column: where a stage has no input (a source) or no output (a sink)
  the figures of that side are 0, as Flink's gauges are. Only the ledger has nulls.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import yaml

if TYPE_CHECKING:
    import pyarrow as pa

ColumnType = Literal["int64", "float64", "string", "timestamp"]


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
        Name in every table, file and frame that carries the column.
    type : {"int64", "float64", "string", "timestamp"}
        A ``timestamp`` holds microseconds in UTC.
    unit : str
        Unit of a value; empty for names and other values without one.
    meaning : str
        What is counted, exactly.
    """

    name: str
    type: ColumnType
    unit: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """One table: its name, what a row is, and its columns in order.

    Attributes
    ----------
    name : str
        Name of the folder or frame that holds the table.
    meaning : str
        What one row stands for.
    columns : tuple of Column
        In the order in which the table is written.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """Return the column called ``name``.

        Raises
        ------
        KeyError
            If the table has no such column; the message lists those it has.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name} has no column {name!r}; it has {', '.join(self.names)}")

    def arrow_schema(self) -> pa.Schema:
        """Return the Arrow schema of the table.

        Returns
        -------
        pyarrow.Schema
            One nullable field per column, in order. Nullable throughout, because Delta would
            otherwise refuse a file whose writer left the mark out; which columns may be null
            at all stands in their meaning. Unit and meaning travel as field metadata.
        """
        import pyarrow as pa

        types = {
            "int64": pa.int64(),
            "float64": pa.float64(),
            "string": pa.string(),
            "timestamp": pa.timestamp("us", tz="UTC"),
        }
        return pa.schema(
            [
                pa.field(
                    column.name,
                    types[column.type],
                    metadata={"unit": column.unit, "meaning": column.meaning},
                )
                for column in self.columns
            ]
        )


_TABLES: dict[str, Any] = yaml.load(
    pkgutil.get_data("flowcontrol", "tables.yaml") or b"",
    Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader),  # libyaml's: 5 ms instead of 50
)


def _declared(name: str) -> Table:
    found = _TABLES[name]
    columns = tuple(Column(**{"unit": "", **column}) for column in found["columns"])
    return Table(name, found["meaning"], columns)


STAGES = _declared("stages")
CHANNELS = _declared("channels")
LATENCY = _declared("latency")
LEDGER = _declared("ledger")
QUERY_PROGRESS = _declared("query_progress")

RESULTS: Mapping[str, Table] = MappingProxyType(
    {table.name: table for table in (STAGES, CHANNELS, LATENCY)}
)
