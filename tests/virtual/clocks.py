"""Runs of the kernel as ledger rows, compared with runs stage by stage, row by row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from flowcontrol.control.between import Between
from flowcontrol.kernel.jobs import Timeline
from flowcontrol.kernel.loop import advance
from flowcontrol.kernel.views import wake
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import Replayed, read_replayed
from flowcontrol.memory.fields import ABSENT, CONNECTION, DISK
from flowcontrol.memory.fill import fill
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.places import FLAG_REPORTS
from flowcontrol.results.state_reader import StateReader
from flowcontrol.results.windows import WindowResults
from flowcontrol.trace.round_state import RoundState
from staged_runs import RoundRows, round_rows, run_staged

RUNS, AGES, REPORTS = 1 << 16, 1 << 10, 1 << 8
WINDOWS, RESULTS, KEPT, SPILLS = 1 << 12, 1 << 16, 1 << 15, 1 << 12
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


def kernel_rounds(
    job: Job, rounds: int | None = None, every: int = 1, *, has_all: bool = False
) -> Iterator[RoundRows]:
    """Run the kernel; yield its rows after each ``every`` rounds, and after the last one.

    A row has what a round has sent, or all that is under way.
    """
    for state in kernel_states(job, rounds, every):
        sent = None if has_all else state.number
        yield RoundRows(state.number, round_rows(job, state.tasks, sent), state)


def kernel_states(job: Job, rounds: int | None = None, every: int = 1) -> Iterator[RoundState]:
    """Run the kernel; yield its state after each ``every`` rounds, and after the last one."""
    for _, state in kernel_memories(job, rounds, every):
        yield state


def kernel_memories(
    job: Job,
    rounds: int | None = None,
    every: int = 1,
    *,
    is_awake: bool = False,
    is_one_by_one: bool = False,
    step: Callable[[Any, int], int] = advance,
) -> Iterator[tuple[Memory, RoundState]]:
    """Run the kernel; yield its memory and its state after each ``every`` rounds and the last one.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    rounds : int, optional
        Stop after so many.
    every : int, default 1
        Rounds that are run in one call.
    is_awake : bool, default False
        Look at every task in every round, whatever the wheel says.
    is_one_by_one : bool, default False
        Move no records in runs.
    step : callable, optional
        What runs rounds: the kernel as it is compiled, or interpreted.
    """
    replayed = read_replayed(job)
    memory = memory_of(job, replayed)
    if is_one_by_one:
        memory.tasks["is_plain"] = 0
    between, results, done = Between(job, memory), WindowResults(memory), 0
    timeline = Timeline(job, memory)
    reader = StateReader(job, memory, between, results)
    last = job.rounds if rounds is None else min(rounds, job.rounds)
    while done < last:
        assert every == 1 or between.throttle is None, "a controller looks between two rounds"
        between.look()
        done = min(last, done + every)
        advance_to(memory, between, done, step, is_awake=is_awake, timeline=timeline)
        yield memory, reader.read()


def wake_all(memory: Memory) -> None:
    """Have every task that is there looked at in the next round; not connections and disks."""
    head = memory.head
    head.now = head.round - 1
    for task, row in enumerate(memory.tasks):
        if row["status"] != ABSENT and row["kind"] not in (CONNECTION, DISK):
            wake(head, task, head.round)


def memory_of(job: Job, replayed: Replayed) -> Memory:
    """Return the memory of a job before its first round."""
    sizes = LogSizes(
        runs=RUNS,
        ages=AGES,
        reports=REPORTS,
        windows=WINDOWS if any(stage.window for stage in job.scenario.stages) else 0,
        results=RESULTS,
        kept=KEPT,
        kept_windows=KEPT,
        spills=SPILLS,
        further=replayed.keys.further,
    )
    return fill(job, sizes, track=False, replayed=replayed)


def advance_to(
    memory: Memory,
    between: Between,
    end: int,
    step: Callable[[Any, int], int] = advance,
    *,
    is_awake: bool = False,
    timeline: Timeline | None = None,
) -> None:
    """Run the rounds before ``end``, which may be beyond the job's own."""
    while memory.head.round < end:
        due = between.before_round()
        # Nothing is due any more: that is the job's last round, and may be behind us.
        stop = min(end, due) if due > memory.head.round else end
        if timeline is not None:
            timeline.act(memory.head.round)
            stop = min(stop, timeline.next_round(memory.head.round + 1))
        if is_awake:
            wake_all(memory)
        flags = step(memory.cells, stop)
        assert flags in {0, FLAG_REPORTS}, flags
        memory.head.flags = 0
        if between.coordination is not None and flags == FLAG_REPORTS:
            between.coordination.hear()


class _Growth:
    """What the rounds since a cut did together: what rows and times of them count."""

    def __init__(self, job: Job) -> None:
        self._ends = {
            link.name: {
                "sender": job.stage(link.edge.sender).name,
                "receiver": job.stage(link.edge.receiver).name,
            }
            for link in job.links
        }
        self.clear()

    def clear(self) -> None:
        """Begin behind a cut."""
        self._rows: Counter[tuple[str, str, int, str]] = Counter()
        self._times: dict[tuple[str, int], list[int]] = {}

    def add(self, batch: RoundRows) -> None:
        """Count a round that is not cut behind."""
        for edge, sides in batch.rows.items():
            for side, rows in sides.items():
                for place, row in enumerate(rows):
                    for name in GROWING:
                        self._rows[edge, side, place, name] += row[name]
        for task in batch.state.tasks:
            new = task.busy_us, task.idle_us, task.backpressured_us
            old = self._times.get((task.stage, task.subtask), (0, 0, 0))
            self._times[task.stage, task.subtask] = [a + b for a, b in zip(new, old, strict=True)]

    def added_to(self, state: State) -> State:
        """Return the rows of the round before a cut with what the rounds before it did."""
        return {
            edge: {
                side: [self._sum(edge, side, place, row) for place, row in enumerate(rows)]
                for side, rows in sides.items()
            }
            for edge, sides in state.items()
        }

    def _sum(self, edge: str, side: str, place: int, row: Mapping[str, Any]) -> dict[str, Any]:
        grown = {name: row[name] + self._rows[edge, side, place, name] for name in GROWING}
        if (task := row["task_state"]) is None:
            return {**row, **grown}
        old = self._times.get((self._ends[edge][side], row[side]), (0, 0, 0))
        times_us = [a + b for a, b in zip(task["times_us"], old, strict=True)]
        return {**row, **grown, "task_state": {**task, "times_us": times_us}}


def compare(
    job: Job,
    rounds: int | None = None,
    *,
    every: int | Sequence[int] = 1,
    restarts: int = 0,
    watch: Callable[[State], None] | None = None,
    look: Callable[[RoundState], None] | None = None,
) -> None:
    """Assert that the kernel's state is that of a run stage by stage.

    What stops after each round is compared by the states, of which the rows are made; what stops
    more seldom by the rows, with what the rounds in between did added up.

    Parameters
    ----------
    job : Job
        Without what only the kernel does, such as a latency of several rounds.
    rounds : int, optional
        Stop after so many.
    every : int or sequence of int, default 1
        Rounds that the kernel runs in one call; several are runs of their own.
    restarts : int, default 0
        Rounds after which all stages begin anew from what they have published; 0: never.
    watch : callable, optional
        Called with each state that was found equal, of the first run, as rows.
    look : callable, optional
        Called with the same as the typed value that both clocks have in common.
    """
    steps = [every] if isinstance(every, int) else every
    kernels = [kernel_states(job, rounds, step) for step in steps]
    grown = [_Growth(job) for _ in steps]
    compared = [0] * len(steps)
    last = job.rounds if rounds is None else min(rounds, job.rounds)
    for reference in islice(run_staged(job, restarts=restarts), last):
        number = reference.number
        for way, step in enumerate(steps):
            is_last = number + 1 == last
            if (number + 1) % step != 0 and not is_last:
                grown[way].add(reference)
                continue
            state = next(kernels[way])
            assert state.number == number
            is_equal = step > 1 or state == reference.state
            if step > 1 or not is_equal or is_last:
                found = read(RoundRows(number, round_rows(job, state.tasks, state.number), state))
                expected = grown[way].added_to(read(reference))
                if found != expected:
                    text = "\n  ".join(islice(differences(found, expected), SHOWN))
                    raise AssertionError(f"after round {number}:\n  {text}")
            assert is_equal, f"after round {number}"
            if watch is not None and way == 0:
                watch(grown[way].added_to(read(reference)))
            if look is not None and way == 0:
                look(state)
            if step > 1:
                grown[way].clear()
            compared[way] += 1
    assert [next(kernel, None) for kernel in kernels] == [None] * len(steps)
    assert min(compared) > 0


def shows(
    job: Job, missing: Collection[str], happened: Callable[[RoundState], Iterable[str]]
) -> bool:
    """Tell whether the kernel alone, at every third round, shows what no comparison has met yet.

    That takes a small part of the time of a comparison: so others are passed over.
    """
    states = kernel_states(job, every=3) if missing else ()
    return any(name in missing for state in states for name in happened(state))


def differences(found: State, expected: State) -> Iterator[str]:
    """Name each number that differs: where it stands, what it is and what it should be."""
    for edge, sides in expected.items():
        for side, rows in sides.items():
            for other, one in zip(rows, found[edge][side], strict=True):
                place = f"{edge} {side} {other['sender']}->{other['receiver']}"
                for path, is_now, should in _leaves(one, other):
                    yield f"{place} {path}: the kernel has {is_now}, stages apart have {should}"


def _leaves(one: Any, other: Any, path: str = "") -> Iterator[Any]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in other:
            yield from _leaves(one.get(key), other[key], f"{path}.{key}".lstrip("."))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (x, y) in enumerate(zip(one, other, strict=True)):
            yield from _leaves(x, y, f"{path}[{i}]")
    elif one != other:
        yield path, one, other
