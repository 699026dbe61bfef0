"""The result and ledger tables; their columns are declared in ``records.yaml``.

A column of results has a value in every row unless it is declared ``nullable``: then null means
that there is no figure (a checkpoint that has not ended, a subtask that did not report).
In the ledger and in ``query_progress`` a column's meaning says when it is null.

pyarrow is loaded when a schema is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from flowcontrol.files import package_yaml

if TYPE_CHECKING:
    import pyarrow as pa

ColumnType = Literal["int64", "float64", "string", "bool", "timestamp"]


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str  # Name in every table, file and frame that carries the column
    type: ColumnType  # A ``timestamp`` holds microseconds in UTC
    unit: str  # Unit of a value; empty for names and other values without one
    meaning: str  # What is counted, exactly
    nullable: bool = False  # Of results: whether a row may have no value


@dataclass(frozen=True)
class Table:
    """One table: its name, what a row is, and its columns in order."""

    name: str  # Name of the folder or frame that holds the table
    meaning: str  # What one row stands for
    columns: tuple[Column, ...]  # In the order in which the table is written

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """Return the column called ``name``.

        Raises KeyError if the table has no such column; the message lists those it has.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name} has no column {name!r}; it has {', '.join(self.names)}")

    def arrow_schema(self) -> pa.Schema:
        """Return the Arrow schema of the table.

        Returns one nullable field per column, in order. Nullable throughout, because Delta would
        otherwise refuse a file whose writer left the mark out; which columns of results may be null
        at all is :attr:`Column.nullable`. Unit and meaning travel as field metadata.
        """
        return self._schema

    def of_rows(self, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        """Return the table with these rows."""
        import pyarrow as pa

        return pa.Table.from_pylist(list(rows), schema=self.arrow_schema())

    def of_objects(self, rows: Iterable[Any]) -> pa.Table:
        """Return the table with a row for each object, whose attributes are its columns."""
        import pyarrow as pa

        schema, found = self.arrow_schema(), list(rows)
        columns = [pa.array([getattr(row, one.name) for row in found], one.type) for one in schema]
        return pa.table(columns, schema=schema)

    @cached_property
    def _schema(self) -> pa.Schema:
        import pyarrow as pa

        types = {
            "int64": pa.int64(),
            "float64": pa.float64(),
            "string": pa.string(),
            "bool": pa.bool_(),
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


def read_tables(package: str, file: str) -> dict[str, Table]:
    """Return the tables that a YAML file of a package declares, by name."""
    found = package_yaml(package, file)
    return {
        name: Table(
            name, table["meaning"], tuple(Column(**{"unit": ""} | c) for c in table["columns"])
        )
        for name, table in found.items()
    }


TABLES = read_tables("flowcontrol", "records.yaml")
"""All that runs and links write."""
STAGES, CHANNELS = TABLES["stages"], TABLES["channels"]
LATENCY, LEDGER = TABLES["latency"], TABLES["ledger"]
QUERY_PROGRESS, STATE = TABLES["query_progress"], TABLES["state"]
CHECKPOINTS, CHECKPOINT_TASKS = TABLES["checkpoints"], TABLES["checkpoint_tasks"]
RESTARTS, DELIVERY = TABLES["restarts"], TABLES["delivery"]
TIME, MESSAGES = TABLES["time"], TABLES["messages"]
REQUESTS, COMMITS = TABLES["requests"], TABLES["commits"]
PROCESSES = TABLES["processes"]
SCALINGS = TABLES["scalings"]
"""What a run writes besides if its scenario has a controller (``scaling``)."""
RESULTS_OF_WINDOWS = TABLES["output"]
"""Columns that every table ``output/<stage>`` of a stage with a window has."""
ROWS_OF_REQUESTS = TABLES["output_of_requests"]
"""Columns that the table of a sink with requests and an output has behind those of the rows."""

RECORD, MARKER, ACKNOWLEDGED = "record", "marker", "acknowledged"
"""What a row of ``latency`` is about."""

RESULTS: Mapping[str, Table] = MappingProxyType(
    {table.name: table for table in (STAGES, CHANNELS, LATENCY)}
)
"""Tables that every run writes."""

CHECKPOINT_RESULTS: Mapping[str, Table] = MappingProxyType(
    {table.name: table for table in (CHECKPOINTS, CHECKPOINT_TASKS)}
)
"""What the coordinator of checkpoints writes."""

FAULT_TOLERANCE: Mapping[str, Table] = MappingProxyType(
    {**CHECKPOINT_RESULTS, RESTARTS.name: RESTARTS, DELIVERY.name: DELIVERY}
)
"""Tables that a run writes besides, all of them, also without rows, if its scenario checkpoints or
something fails in it (``Scenario.is_fault_tolerant``); ``delivery`` also if one of its sinks has
another guarantee than at-least-once."""

EVENT_TIME: Mapping[str, Table] = MappingProxyType({TIME.name: TIME})
"""Tables that a run writes besides if records of its scenario have event times, or a stage a window
(``Scenario.has_stamps``)."""

MACHINES: Mapping[str, Table] = MappingProxyType({PROCESSES.name: PROCESSES})
"""Tables that a run writes besides if its scenario says how many processors there are or what needs
one, or a subtask of it stalls (``Scenario.has_processes``)."""

CONTROL_MESSAGES = TABLES["control_messages"]

TRACE: Mapping[str, Table] = MappingProxyType(
    {MESSAGES.name: MESSAGES, CONTROL_MESSAGES.name: CONTROL_MESSAGES}
)
"""Tables that a run writes besides if its scenario has a ``trace``."""

SAMPLES, METRICS = TABLES["samples"], TABLES["metrics"]

MONITORING: Mapping[str, Table] = MappingProxyType({SAMPLES.name: SAMPLES, METRICS.name: METRICS})
"""Tables that a run writes besides as the ``monitoring`` of its scenario says: ``samples`` if it
has ``sampling``, ``metrics`` unless they are left out."""

FOLDERS: frozenset[str] = frozenset(
    {*RESULTS, *FAULT_TOLERANCE, *EVENT_TIME, *MACHINES, *TRACE, *MONITORING, SCALINGS.name}
)
"""Folders of a run that hold its tables."""
