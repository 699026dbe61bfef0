"""Runs of the kernel as ledger rows, compared with reference runs row by row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from flowcontrol.job import Job
from flowcontrol.job.batch_settings import has_batches, has_throttles_batches
from flowcontrol.job.ledger_rows import round_rows
from flowcontrol.job.reference import RoundRows, run_reference
from flowcontrol.job.round_state import RoundState
from flowcontrol.job.throttling import controller_of
from flowcontrol.job.window_settings import has_windows
from flowcontrol.virtual.batches import Batches
from flowcontrol.virtual.control import Control
from flowcontrol.virtual.coordination import Coordination
from flowcontrol.virtual.header import FLAG_REPORTS
from flowcontrol.virtual.loop import advance
from flowcontrol.virtual.memory import Memory, fill
from flowcontrol.virtual.recovery import Recovery
from flowcontrol.virtual.replay import read_replayed
from flowcontrol.virtual.state_reader import StateReader
from flowcontrol.virtual.window_results import WindowResults

RUNS, AGES, REPORTS = 1 << 16, 1 << 10, 1 << 8
WINDOWS, RESULTS = 1 << 12, 1 << 16
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
    return {**row, **{k: None if row[k] is None else _numbers(row[k]) for k in texts}}


@lru_cache(maxsize=4096)
def _numbers(text: str) -> Any:
    """Return a state; that of the other clock, and one that has not changed, is the same object.

    Nobody must change it.
    """
    return json.loads(text)


def kernel_rounds(job: Job, rounds: int | None = None, every: int = 1) -> Iterator[RoundRows]:
    """Run the kernel; yield its rows after each ``every`` rounds, and after the last one."""
    replayed = read_replayed(job)
    tables, limits = replayed.tables, replayed.limits
    memory = fill(
        job,
        runs=RUNS,
        ages=AGES,
        track=False,
        reports=REPORTS,
        windows=WINDOWS if has_windows(job) else 0,
        results=RESULTS,
        tables=tables,
        limits=limits,
    )
    coordination = None if job.checkpoints is None else Coordination(job, memory)
    controller = controller_of(job)
    batches = Batches(job, memory) if has_batches(job.scenario) else None
    own = batches if has_throttles_batches(job.scenario) else None
    control = None if controller is None else Control(job, memory, controller, own)
    results, done = WindowResults(memory), 0
    reader = StateReader(job, memory, controller, coordination, results)
    recovery = recovery_of(job, memory, coordination)
    if recovery is not None:
        recovery.attempts.hooks.append(reader.hold)
    last = job.rounds if rounds is None else min(rounds, job.rounds)
    while done < last:
        if control is not None and done > 0:
            assert every == 1, "a controller looks between two rounds"
            _look(control, memory, job.round_us)
        done = min(last, done + every)
        advance_to(memory, coordination, recovery, done, batches)
        state = reader.read()
        yield RoundRows(done - 1, round_rows(job, state.tasks), state)


def _look(control: Control, memory: Memory, round_us: int) -> None:
    """Show a controller the rounds that are done only before the next, as the live clock does."""
    due = memory.head.round * round_us >= control.controller.next_look_us()
    if due or (control.controller.wants_empty and memory.head.is_empty):
        control.look()
    memory.head.is_watched = 0


def recovery_of(job: Job, memory: Memory, coordination: Coordination | None) -> Recovery | None:
    """Return what has the tasks of a job fail; None if nothing does."""
    control = None if coordination is None else coordination.control
    return None if job.faults is None else Recovery(job, memory, control)


def advance_to(
    memory: Memory,
    coordination: Coordination | None,
    recovery: Recovery | None,
    end: int,
    batches: Batches | None = None,
) -> None:
    """Run the rounds before ``end``, which may be beyond the job's own."""
    while memory.head.round < end:
        due = end
        if coordination is not None:
            due = coordination.begin(recovery)
        elif recovery is not None:
            recovery.before_round(memory.head.round, [])
            due = recovery.next_round
        if batches is not None:
            due = min(due, batches.before_round(memory.head.round))
        # Nothing is due any more: that is the job's last round, and may be behind us.
        stop = min(end, due) if due > memory.head.round else end
        flags = advance(memory.cells, stop)
        assert flags in {0, FLAG_REPORTS}, flags
        memory.head.flags = 0
        if coordination is not None and flags == FLAG_REPORTS:
            coordination.hear()


def reference_rounds(
    job: Job, rounds: int | None, every: Sequence[int]
) -> Iterator[tuple[int, RoundRows, State]]:
    """Run the reference once, for several ways to cut a run.

    Yields the place of a way in ``every``, the round after which it cuts, and the rows after that
    round, with what all rounds since the cut before it did together.
    """
    last = job.rounds if rounds is None else min(rounds, job.rounds)
    before: list[State | None] = [None] * len(every)
    for batch in islice(run_reference(job, replayed=read_replayed(job)), last):
        new = read(batch)
        for way, step in enumerate(every):
            old = before[way]
            state = new if old is None else _added(new, old)
            is_cut = (batch.number + 1) % step == 0 or batch.number + 1 == last
            before[way] = None if is_cut else state
            if is_cut:
                yield way, batch, state


def _added(new: State, before: State) -> State:
    """Return the rows of a round with what the rounds before it did."""
    return {
        edge: {
            side: [_sum(row, old) for row, old in zip(rows, before[edge][side], strict=True)]
            for side, rows in sides.items()
        }
        for edge, sides in new.items()
    }


def _sum(row: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    both = {**row, **{name: row[name] + old[name] for name in GROWING}}
    if (task := row["task_state"]) is not None:
        pairs = zip(task["times_us"], old["task_state"]["times_us"], strict=True)
        both["task_state"] = {**task, "times_us": [a + b for a, b in pairs]}
    return both


def compare(
    job: Job,
    rounds: int | None = None,
    *,
    every: int | Sequence[int] = 1,
    watch: Callable[[State], None] | None = None,
    look: Callable[[RoundState], None] | None = None,
) -> None:
    """Assert that the kernel's rows are the reference run's.

    Parameters
    ----------
    job : Job
        Without what only the kernel does, such as a latency of several rounds.
    rounds : int, optional
        Stop after so many.
    every : int or sequence of int, default 1
        Rounds that the kernel runs in one call; several are runs of their own.
    watch : callable, optional
        Called with each state that was found equal, of the first run, as rows.
    look : callable, optional
        Called with the same as the typed value that both clocks have in common.
    """
    steps = [every] if isinstance(every, int) else every
    kernels = [kernel_rounds(job, rounds, step) for step in steps]
    compared = [0] * len(steps)
    for way, reference, expected in reference_rounds(job, rounds, steps):
        batch, number = next(kernels[way]), reference.number
        assert batch.number == number
        found = read(batch)
        if found != expected:
            text = "\n  ".join(islice(differences(found, expected), SHOWN))
            raise AssertionError(f"after round {number}:\n  {text}")
        assert steps[way] > 1 or batch.state == reference.state, f"after round {number}"
        if watch is not None and way == 0:
            watch(found)
        if look is not None and way == 0:
            look(batch.state)
        compared[way] += 1
    assert [next(kernel, None) for kernel in kernels] == [None] * len(steps)
    assert min(compared) > 0


def differences(found: State, expected: State) -> Iterator[str]:
    """Name each number that differs: where it stands, what it is and what it should be."""
    for edge, sides in expected.items():
        for side, rows in sides.items():
            for other, one in zip(rows, found[edge][side], strict=True):
                place = f"{edge} {side} {other['sender']}->{other['receiver']}"
                for path, is_now, should in _leaves(one, other):
                    yield f"{place} {path}: the kernel has {is_now}, the reference run {should}"


def _leaves(one: Any, other: Any, path: str = "") -> Iterator[Any]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in other:
            yield from _leaves(one.get(key), other[key], f"{path}.{key}".lstrip("."))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (x, y) in enumerate(zip(one, other, strict=True)):
            yield from _leaves(x, y, f"{path}[{i}]")
    elif one != other:
        yield path, one, other
