"""What a job keeps and commits on a real Flink: state, savepoints, rows of exactly-once sinks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from flowcontrol.records import TABLES
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.fault_tolerance import State
from flowcontrol.scenario.stage_models import Stage

Figure = tuple[tuple[str, str, str], float]
"""Place, figure, unit; and the value."""

MOST_RECORDS = 1 << 24
"""Records of a subtask of a source that have ids of their own."""

SHARES = (0.23, 0.48, 0.73, 0.98)
"""Shares of a run at which the rows are counted that readers see: a while before a checkpoint."""


def planned(scenario: Scenario) -> list[dict[str, Any]]:
    """Return the savepoints that the program asks for."""
    return [{"at_s": float(one.at_s), "stop": one.stop} for one in scenario.savepoints]


def committing(scenario: Scenario) -> list[Stage]:
    """Return the sinks that commit."""
    return [stage for stage in scenario.topological() if stage.guarantee == "exactly-once"]


def has_ids(scenario: Scenario) -> bool:
    """Tell whether records carry an id: for their keys in windows, or to be known at a sink."""
    return scenario.has_stamps or bool(committing(scenario))


def is_watched(scenario: Scenario) -> bool:
    """Tell whether the program notes more than metrics say, and begins with a checkpoint."""
    return bool(scenario.failures or scenario.savepoints or committing(scenario))


def is_interrupted(scenario: Scenario) -> bool:
    """Tell whether counters of tasks begin anew, or end before the run does."""
    return bool(scenario.failures) or any(one.stop for one in scenario.savepoints)


def first_ids(scenario: Scenario, stage: Stage) -> list[int]:
    """Return the id of the first record of each subtask of a source."""
    before = 0
    for one in scenario.topological():
        if one == stage:
            break
        before += one.parallelism
    return [MOST_RECORDS * (before + number) for number in range(stage.parallelism)]


def commit_ms(stage: Stage) -> float:
    """Return how long a commit of a checkpoint takes."""
    own = stage.commit
    return 0.0 if own is None else own.length_us(own.files) / 1000


def state(scenario: Scenario, stage: Stage) -> dict[str, Any] | None:
    """Return what each subtask of a stage keeps: with failures at least its counts."""
    if not (scenario.failures or stage.state) or not scenario.inputs(stage.name):
        return None
    own = stage.state or State()
    return {
        "bytes": int(own.bytes),
        "bytes_per_record": int(own.bytes_per_record),
        "bytes_per_key": int(own.bytes_per_key),
        "sync_ms": own.sync_us // 1000,
    }


def refusals(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield what is neither kept nor committed: the place in the scenario, and why."""
    for number, stage in enumerate(scenario.stages):
        place = f"stages[{number}]"
        if stage.state is not None:
            yield from _state(scenario, place, stage)
        if stage.commit is not None and stage.commit.shared:
            text = "true: each subtask of the program commits its own files; leave it out"
            yield f"{place}.commit.shared", text
        if stage.guarantee == "exactly-once":
            yield from _sink(scenario, place, stage)


def _state(scenario: Scenario, place: str, stage: Stage) -> Iterator[tuple[str, str]]:
    own, edges = stage.state, scenario.inputs(stage.name)
    assert own is not None
    if not edges:
        yield (
            f"{place}.state",
            "the sources of the program keep no more than their place; leave it out",
        )
    if own.incremental_share != 1:
        text = f"{float(own.incremental_share):g}: state on the heap is written whole"
        yield f"{place}.state.incremental_share", f"{text}; leave it out"
    if own.bytes_per_key and [edge.partitioner for edge in edges] != ["hash"]:
        yield (
            f"{place}.state.bytes_per_key",
            "Flink has keys behind one edge by hash alone; use that",
        )


def _sink(scenario: Scenario, place: str, stage: Stage) -> Iterator[tuple[str, str]]:
    if scenario.has_stamps:
        yield (
            f"{place}.guarantee",
            "the program has event time or exactly-once sinks; leave one out",
        )
    if stage.requests is not None:
        yield f"{place}.requests", "the program commits files, not requests; leave them out"
    if stage.transaction_timeout_s is not None:
        yield f"{place}.transaction_timeout_s", "a file waits for ever; leave it out"
    names = {stage.name, *scenario.upstream(stage.name)}
    for number, one in enumerate(scenario.stages):
        if one.name in names and one.selectivity_exact > 1:
            text = (
                f"{float(one.selectivity_exact):g}: rows of one record have one id; use at most 1"
            )
            yield f"stages[{number}].selectivity", text
    for number, edge in enumerate(scenario.edges):
        if edge.receiver in names and edge.partitioner == "broadcast":
            yield f"edges[{number}].partitioner", "broadcast: each row has the same id; use another"


def delivery_table(scenario: Scenario, found: Mapping[str, Any], moments: list[float]) -> pa.Table:
    """Return the table ``delivery``: what readers see of sinks that commit, at each moment, s.

    Parameters
    ----------
    scenario : Scenario
        What ran.
    found : mapping
        What the program wrote: ``commits`` (when, s; subtask; rows, and those seen before).
    moments : list of float
        Samples.
    """
    rows = []
    for stage in committing(scenario):
        for subtask in range(stage.parallelism):
            own = [one for one in found["commits"] if one[1] == f"{stage.name}/{subtask}"]
            rows += [
                {
                    "t_s": at_s,
                    "stage": stage.name,
                    "subtask": subtask,
                    "committed": sum(one[2] for one in own if one[0] <= at_s),
                    "visible_twice": sum(one[3] for one in own if one[0] <= at_s),
                }
                for at_s in moments
            ]
    schema = TABLES["delivery"].arrow_schema()
    rows.sort(key=lambda row: row["t_s"])
    return pa.Table.from_pylist(rows, pa.schema([one.with_nullable(True) for one in schema]))


def figures(scenario: Scenario, tables: Mapping[str, pa.Table]) -> Iterator[Figure]:
    """Yield the rows that readers see, by time, and what savepoints hold and take."""
    for stage in committing(scenario):
        own = tables["delivery"].to_pandas()
        sums = own[own["stage"] == stage.name].groupby("t_s")[["committed", "visible_twice"]].sum()
        for share in SHARES:
            at_s = scenario.duration_s * share
            seen = sums[sums.index <= at_s + EARLY_S]
            yield (stage.name, f"visible at {at_s:g} s", "rows"), float(seen["committed"].iloc[-1])
        yield (stage.name, "visible twice", "rows"), float(sums["visible_twice"].iloc[-1])
    if scenario.checkpointing is not None and (scenario.savepoints or _keeps(scenario)):
        yield from _checkpoints(scenario, tables["checkpoints"].to_pandas())


EARLY_S = 0.3
"""As of `beside`: a sample so little after a moment belongs to it."""


def _keeps(scenario: Scenario) -> bool:
    return any(stage.state is not None for stage in scenario.stages)


def _checkpoints(scenario: Scenario, found: pd.DataFrame) -> Iterator[Figure]:
    done = found[(found["status"] == "completed") & (found["triggered_s"] > EARLY_S)]
    for kind in ("checkpoint", "savepoint"):
        own = done[done["kind"] == kind]
        if not len(own):
            continue
        yield (f"{kind}s", "end to end", "ms"), float(own["e2e_ms"].median())
        if _keeps(scenario):
            yield (f"{kind}s", "state", "bytes"), float(own["state_bytes"].mean())
            yield (f"{kind}s", "last state", "bytes"), float(own["state_bytes"].iloc[-1])
    if any(one.stop for one in scenario.savepoints):
        last = done[done["kind"] == "savepoint"].iloc[-1]
        yield ("job", "stopped at", "s"), float(last["ended_s"])
