"""Puts the simulation under the product: in place of names that its modules import, and no more."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import deltalake
import deltalake.transaction
import pyarrow as pa
import pyarrow.parquet as pq

from flowcontrol.ledger import appending, commit, link_ledger, link_log, log, storage
from flowcontrol.link import (
    batches,
    event_time,
    folder,
    members,
    options,
    packing,
    receiver,
    sealed_files,
    sender,
    settings,
    source,
)
from flowcontrol.spark import versions

from . import delta, machine, tables
from .machine import World

WAITS_S = (0.02, 0.1)
"""Shortest and longest wait for news: a tenth of the looks of a real process."""


def _learnt(meter: Any, nbytes: int, seconds: float) -> None:
    """What a receiver learns of its pace: anything, since every pool must be safe."""
    chance: random.Random = World.scheduler.rng
    meter.pace = members.Pace(chance.choice((0.0, 500.0, 5000.0, 50_000.0)), 1e-6)


_ARROW_SCHEMA = versions.arrow_schema
_SCHEMA_OF = settings.schema_of
_arrow_schemas: dict[str, Any] = {}


@functools.cache
def _schema_of(text: str) -> Any:
    return _SCHEMA_OF(text)


def _arrow_schema(schema: Any) -> Any:
    return _arrow_schemas.setdefault(id(schema), _ARROW_SCHEMA(schema))


def _patches() -> Iterator[tuple[Any, str, Any]]:
    timed = (log, commit, appending, storage, link_log, link_ledger)
    for module in (*timed, sender, receiver, source, options, settings, event_time):
        if hasattr(module, "time"):
            yield module, "time", machine.Clock
    for module in (storage, link_ledger, appending, folder, packing):
        yield module, "uuid", machine.Name
    for module in (storage, appending, commit):
        yield module, "Path", machine.Path
    for module in (storage, appending, source):
        yield module, "os", machine.System
    yield storage, "open", machine.open_file
    yield storage, "open_store", machine.open_store
    yield storage, "LOCAL_WAIT_S", WAITS_S
    yield storage, "REMOTE_WAIT_S", WAITS_S
    yield source, "LOOK_S", -1.0  # one look
    yield appending, "LOOK_S", 0.3
    yield appending, "_machine", machine.machine
    yield commit, "has_hard_links", lambda _: World.files.kind != machine.UNLINKED
    yield link_ledger, "datetime", machine.Moment
    yield link_ledger, "ThreadPoolExecutor", machine.Executor
    yield sender, "threading", machine.THREADING
    yield link_ledger, "pa", tables.ARROW
    yield link_ledger, "pq", tables.PARQUET
    yield link_ledger, "pc", tables.COMPUTE
    yield link_ledger, "LEDGER", SimpleNamespace(arrow_schema=lambda: None, meaning="")
    yield sealed_files, "pa", tables.ARROW
    yield sealed_files, "SealedFile", tables.SealedFile
    yield sealed_files, "freeze_loaded", lambda: None
    yield pa, "OSFile", machine.open_file
    yield pq, "read_table", delta.read_table
    yield deltalake, "DeltaTable", delta.DeltaTable
    yield deltalake, "Transaction", delta.Transaction
    yield deltalake, "CommitProperties", delta.CommitProperties
    yield deltalake, "PostCommitHookProperties", delta.PostCommitHookProperties
    yield deltalake.transaction, "AddAction", delta.AddAction
    yield deltalake.transaction, "RemoveAction", delta.RemoveAction
    yield versions, "arrow_schema", _arrow_schema
    yield settings, "schema_of", _schema_of
    yield folder, "schema_of", _schema_of
    yield members.PaceMeter, "observe", _learnt
    for module, name in (  # which each history sets
        (commit, "CHECKPOINT_EVERY"),
        (link_ledger, "PACK"),
        (log, "CHECK_EVERY_S"),
        (log, "LIST_EVERY_S"),
    ):
        yield module, name, getattr(module, name)
    yield batches, "checkpoint_of", lambda rows, query: rows.checkpoint
    yield batches, "is_stopped", lambda rows, query: rows.is_stopped()
    yield batches, "shorten_tracebacks", lambda: None


@contextmanager
def installed() -> Iterator[None]:
    """Have the product run in the simulation."""
    undone = []
    try:
        for owner, name, stand_in in _patches():
            patch = mock.patch.object(owner, name, stand_in, create=name == "open")
            patch.start()
            undone.append(patch)
        yield
    finally:
        for patch in reversed(undone):
            patch.stop()
