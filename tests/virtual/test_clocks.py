"""The comparison of the clocks finds what differs, whatever it is and whenever it is looked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.state.declared import copied
from flowcontrol.trace.round_state import TaskState
from staged_runs import RoundRows, round_rows, run_staged

Change = Callable[[TaskState], TaskState]


def busier(task: TaskState) -> TaskState:
    """Return a task that worked longer in its round."""
    return replace(task, busy_us=task.busy_us + 1)


def with_more_taken(task: TaskState) -> TaskState:
    """Return a task whose gate gave it another record in its round."""
    if not task.gates:
        return task
    first = task.gates[0].channels[0]
    channels = (replace(first, taken=first.taken + 1), *task.gates[0].channels[1:])
    return replace(task, gates=(replace(task.gates[0], channels=channels), *task.gates[1:]))


def with_another_cursor(task: TaskState) -> TaskState:
    """Return a task that has taken up another number of records since its start."""
    state = copied(task.state)
    state.taken += 1
    return replace(task, state=state)


def on_another_machine(task: TaskState) -> TaskState:
    """Return a task that runs elsewhere, which no ledger row says."""
    return replace(task, task_manager=task.task_manager + 1)


@pytest.fixture
def small(jobs: ModuleType) -> Job:
    """A source and a sink of two channels, twelve rounds."""
    stages = [jobs.source(100), {"name": "sink", "parallelism": 2, "service_rate": 30}]
    made: Job = jobs.job(stages, [("source", "sink", "rebalance")], duration_s=1.2)
    return made


def planted(clocks: ModuleType, monkeypatch: pytest.MonkeyPatch, at: int, change: Change) -> None:
    """Have a round of stages apart be another, in its state and in its rows."""

    def run(job: Job, **more: Any) -> Iterator[RoundRows]:
        for batch in run_staged(job, **more):
            if batch.number != at:
                yield batch
                continue
            state = replace(batch.state, tasks=tuple(map(change, batch.state.tasks)))
            yield RoundRows(at, round_rows(job, state.tasks, state.number), state)

    monkeypatch.setattr(clocks, "run_staged", run)


@pytest.mark.parametrize("every", [1, 2, 4, 5, 1000, (1, 5), (4, 1)])
def test_clocks_that_do_the_same_are_the_same(clocks: ModuleType, small: Job, every: Any) -> None:
    clocks.compare(small, every=every)


@pytest.mark.parametrize("change", [busier, with_more_taken])
@pytest.mark.parametrize(("every", "found"), [(1, 5), (2, 5), (4, 7), (5, 9), (1000, 11)])
def test_what_a_round_did_counts_until_it_is_looked_at(
    clocks: ModuleType,
    small: Job,
    monkeypatch: pytest.MonkeyPatch,
    change: Change,
    every: int,
    found: int,
) -> None:
    planted(clocks, monkeypatch, 5, change)
    with pytest.raises(AssertionError, match=f"after round {found}:\n.*the kernel has"):
        clocks.compare(small, every=every)


@pytest.mark.parametrize(("every", "found"), [(1, 5), (2, 5), (4, None), (1000, None), ((4, 1), 5)])
def test_a_state_is_looked_at_when_the_kernel_stops(
    clocks: ModuleType, small: Job, monkeypatch: pytest.MonkeyPatch, every: Any, found: int | None
) -> None:
    planted(clocks, monkeypatch, 5, with_another_cursor)
    if found is None:  # in between nobody looks
        clocks.compare(small, every=every)
        return
    with pytest.raises(AssertionError, match=f"after round {found}:\n.*task.taken: the kernel"):
        clocks.compare(small, every=every)


def test_what_no_row_holds_is_compared_too(
    clocks: ModuleType, small: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(clocks, monkeypatch, 5, on_another_machine)
    with pytest.raises(AssertionError, match=r"after round 5$"):
        clocks.compare(small)


def test_a_watcher_sees_the_rows_with_what_was_done_since_the_last_look(
    clocks: ModuleType, small: Job
) -> None:
    seen: dict[int, list[int]] = {}
    for every in (1, 4):
        own = seen.setdefault(every, [])

        def watch(state: Any, own: list[int] = own) -> None:
            own.append(sum(row["rows"] for row in state["source->sink"]["sender"]))

        clocks.compare(small, every=every, watch=watch)
    assert seen[4] == [sum(seen[1][first : first + 4]) for first in (0, 4, 8)]
    assert min(seen[4]) > 0
