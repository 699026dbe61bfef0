"""Runs of the kernel as ledger rows, compared with rehearsals row by row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from flowcontrol.emulation import Job
from flowcontrol.emulation.rehearsal import RoundRows, rehearse
from flowcontrol.protocol import rounds as r
from flowcontrol.protocol import rows as w
from flowcontrol.virtual.loop import advance
from flowcontrol.virtual.memory import fill
from flowcontrol.virtual.replay import read_replayed
from flowcontrol.virtual.snapshot import KernelRows

RUNS, AGES = 1 << 16, 1 << 10
SHOWN = 12
"""Differences that a failure shows."""

GROWING = ("rows", "bytes")
"""Columns of a row that count what a round did."""

State = dict[str, dict[str, list[dict[str, Any]]]]
"""Ledger rows by edge and side, the text of their states read."""


def read(batch: RoundRows) -> State:
    """Return a round's rows with their states as numbers."""
    return {
        edge: {side: [_read_row(row) for row in rows] for side, rows in sides.items()}
        for edge, sides in batch.rows.items()
    }


def _read_row(row: Mapping[str, Any]) -> dict[str, Any]:
    texts = ("channel_state", "task_state")
    return {**row, **{k: None if row[k] is None else json.loads(row[k]) for k in texts}}


def kernel_rounds(job: Job, rounds: int | None = None, every: int = 1) -> Iterator[RoundRows]:
    """Run the kernel; yield its rows after each ``every`` rounds, and after the last one."""
    replayed = read_replayed(job)
    tables, limits = replayed.tables, replayed.limits
    memory = fill(job, runs=RUNS, ages=AGES, track=False, tables=tables, limits=limits)
    rows, done = KernelRows(job, memory), 0
    last = job.rounds if rounds is None else min(rounds, job.rounds)
    while done < last:
        done = min(last, done + every)
        assert advance(memory.cells, done) == 0
        yield RoundRows(done - 1, rows.rows())


def rehearsed(job: Job, rounds: int | None = None, every: int = 1) -> Iterator[tuple[int, State]]:
    """Rehearse; yield the rows after each ``every`` rounds, with what these did together."""
    last = job.rounds if rounds is None else min(rounds, job.rounds)
    before: State | None = None
    for batch in islice(rehearse(job, replayed=read_replayed(job)), last):
        state = read(batch)
        if before is not None:
            _add(state, before)
        before = state
        if (batch.number + 1) % every == 0 or batch.number + 1 == last:
            yield batch.number, state
            before = None


def _add(state: State, before: State) -> None:
    """Add to the rows of a round what the rounds before it did."""
    for edge, sides in state.items():
        for side, rows in sides.items():
            for row, old in zip(rows, before[edge][side], strict=True):
                for name in GROWING:
                    row[name] += old[name]
                if row["task_state"] is not None:
                    pair = zip(
                        row["task_state"]["times_us"], old["task_state"]["times_us"], strict=True
                    )
                    row["task_state"]["times_us"] = [a + b for a, b in pair]


def compare(
    job: Job,
    rounds: int | None = None,
    *,
    every: int = 1,
    watch: Callable[[State], None] | None = None,
) -> None:
    """Assert that the kernel's rows are the rehearsal's.

    Parameters
    ----------
    job : Job
        Without what only the kernel does, such as a latency of several rounds.
    rounds : int, optional
        Stop after so many.
    every : int, default 1
        Rounds that the kernel runs in one call.
    watch : callable, optional
        Called with each state that was found equal.
    """
    kernel = kernel_rounds(job, rounds, every)
    compared = 0
    for number, expected in rehearsed(job, rounds, every):
        batch = next(kernel)
        assert batch.number == number
        found = read(batch)
        if found != expected:
            text = "\n  ".join(islice(differences(found, expected), SHOWN))
            raise AssertionError(f"after round {number}:\n  {text}")
        if watch is not None:
            watch(found)
        compared += 1
    assert next(kernel, None) is None
    assert compared > 0


def differences(found: State, expected: State) -> Iterator[str]:
    """Name each number that differs: where it stands, what it is and what it should be."""
    for edge, sides in expected.items():
        for side, rows in sides.items():
            for other, one in zip(rows, found[edge][side], strict=True):
                place = f"{edge} {side} {other['sender']}->{other['receiver']}"
                for path, is_now, should in _leaves(one, other, side):
                    yield f"{place} {path}: the kernel has {is_now}, the rehearsal {should}"


def _leaves(one: Any, other: Any, side: str, path: str = "", name: str = "") -> Iterator[Any]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in other:
            yield from _leaves(one.get(key), other[key], side, f"{path}.{key}".lstrip("."), key)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        names = _columns(side).get(name, {})
        for i, (x, y) in enumerate(zip(one, other, strict=True)):
            yield from _leaves(x, y, side, f"{path}[{names.get(i, i)}]", "")
    elif one != other:
        yield path, one, other


def _columns(side: str) -> dict[str, dict[int, str]]:
    """Names of the columns of the lists of integers in a state."""
    row = ("CH_", w) if side == "receiver" else ("OUT_", r)
    prefixes = {"task": ("TASK_", r), "row": row, "pool": ("POOL_", w), "cursors": ("IN_", r)}
    return {
        name: {getattr(module, key): key for key in dir(module) if key.startswith(prefix)}
        for name, (prefix, module) in prefixes.items()
    }
