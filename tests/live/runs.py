"""Runs to compare: ledgers as tables, what a run in memory says, and the rows that must come."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from flowcontrol.kernel import loop
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.replay import NO_KEYS, NO_ROWS, Replayed
from flowcontrol.layout.shares import mix, stream_of, weights_of
from flowcontrol.ledger.ledger import read_history
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.history import History, Observed
from flowcontrol.live.replay import stage_replay
from flowcontrol.live.runtime import replayed_of
from flowcontrol.live.whole import is_whole
from flowcontrol.memory.links import connections_of
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.protocol.network.partitioners import count_share, next_by_share
from flowcontrol.records import LEDGER
from flowcontrol.results import running
from flowcontrol.results.running import Running, step
from flowcontrol.results.state_reader import StateReader
from flowcontrol.scenario import parse_scenario
from flowcontrol.trace.round_state import RoundState
from flowcontrol.virtual.clock import run_job
from staged_runs import round_rows

Row = dict[str, Any]
Ledgers = dict[str, list[Row]]

KEY = ("batch_id", "side", "sender", "receiver")
STATES = ("channel_state", "task_state")


def job_of(mapping: Mapping[str, Any]) -> Job:
    return build_physical_graph(parse_scenario(dict(mapping)))


# ---------------------------------------------------------------------- ledgers


def virtual_tables(job: Job) -> dict[str, pa.Table]:
    """Return the ledgers that the virtual clock would write, by edge; their states are readable."""
    rows: dict[str, list[Row]] = {link.name: [] for link in job.links}
    for after in before_turns(job) if connections_of(job) and not is_whole(job) else step(job):
        for name, sides in round_rows(job, after.tasks, after.number).items():
            for side, found in sides.items():
                rows[name] += [{**row, "side": side, "batch_id": after.number} for row in found]
    schema = LEDGER.arrow_schema()
    return {name: pa.Table.from_pylist(found, schema=schema) for name, found in rows.items()}


def before_turns(job: Job) -> Iterator[RoundState]:
    """Run the kernel uncompiled; yield its state in each round before connections have their turns.

    So a row of a ledger says it, as a turn is known when all tasks have published the round.
    """
    found = Running(job, NO_ROWS, LogSizes.of_processes(job, NO_KEYS), track=False)
    reader = StateReader(job, found.memory, found.between, found.tables.results)
    states, serve = list[RoundState](), loop.serve_machines

    def read(number: int) -> None:
        head = found.memory.head
        before, head.round = head.round, number + 1
        states.append(reader.read())
        head.round = before

    def read_first(m: Any, active: Any, count: int) -> None:
        if len(states) == m.now:  # else the tasks were looked at in two goes
            read(m.now)
        serve(m, active, count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "serve_machines", read_first)
        patch.setattr(running, "advance", lambda cells, end: int(loop._advance(cells, end)))
        for number in range(job.rounds):
            assert found.advance_to(number + 1) == 0
            if len(states) == number:  # nobody had anything to do
                read(number)
    yield from states


def live_tables(job: Job, root: Path) -> dict[str, pa.Table]:
    """Return the ledgers of a run, by edge."""
    paths = RunPaths(root)
    return {link.name: read_history(paths.ledger(link)) for link in job.links}


def virtual_rows(job: Job) -> Ledgers:
    """Return the rows of a run on the virtual clock, in order."""
    return comparable(virtual_tables(job))


def live_rows(job: Job, root: Path) -> Ledgers:
    """Return the rows of a run's ledgers in order."""
    return comparable(live_tables(job, root))


def live_results(job: Job, root: Path) -> dict[str, pa.Table]:
    """Return the result tables of a run."""
    return results_of(job, live_tables(job, root), replayed_of(job, RunPaths(root)))


def results_of(
    job: Job, ledgers: Mapping[str, pa.Table], replayed: Replayed = NO_ROWS
) -> dict[str, pa.Table]:
    """Return the result tables of a run whose ledgers these are."""
    found = Observed(job, replayed, History.of_tables(job, ledgers))
    assert found.run(lambda rounds, records: None) == 0
    return found.result_tables()


def virtual_run(job: Job) -> Running:
    """Return a run on the virtual clock behind its last round: what failed, what was complete."""
    found = Running(job, NO_ROWS, LogSizes.of_processes(job, NO_KEYS), track=False)
    assert found.run(lambda rounds, records: None) == 0
    found.result_tables()  # which ends it
    return found


def comparable(tables: Mapping[str, pa.Table]) -> Ledgers:
    """Return the rows in order, without committed_at, their states as numbers."""
    ledgers = {name: table.drop_columns(["committed_at"]) for name, table in tables.items()}
    found = {
        name: table.sort_by([(column, "ascending") for column in KEY]).to_pylist()
        for name, table in ledgers.items()
    }
    for row in (row for rows in found.values() for row in rows):
        for column in STATES:
            row[column] = None if row[column] is None else json.loads(row[column])
    return found


def first_difference(found: Ledgers, expected: Ledgers) -> str | None:
    """Name the first row in which two ledgers differ; None if they are equal."""
    if found.keys() != expected.keys():
        return f"edges {sorted(found)} are not {sorted(expected)}"
    for edge, rows in expected.items():
        for one, other in zip(found[edge], rows, strict=False):
            if one != other:
                keys = [key for key in other if one.get(key) != other[key]]
                return (
                    f"{edge}: "
                    + "; ".join(f"{k}: {one[k]} is not {other[k]}" for k in keys)
                    + (f" in {[other[k] for k in KEY]}")
                )
        if len(found[edge]) != len(rows):
            return f"{edge}: {len(found[edge])} rows are not {len(rows)}"
    return None


def assert_equal(found: Ledgers, expected: Ledgers) -> None:
    """Assert that two ledgers are equal."""
    difference = first_difference(found, expected)
    assert difference is None, difference


def of_contract(ledgers: Ledgers) -> Ledgers:
    """Return rows without their states, whose form is a run's own."""
    return {
        edge: [{name: row[name] for name in row if name not in STATES} for row in rows]
        for edge, rows in ledgers.items()
    }


def assert_is_virtual(job: Job, root: Path) -> Ledgers:
    """Assert that ledgers and tables are those of the virtual clock; return its rows.

    What a live run keeps beside the columns of the contract is cells of memory; theirs can be read.
    """
    expected = virtual_rows(job)
    for link in job.links:  # every round, side and channel
        assert len(expected[link.name]) == 2 * job.rounds * len(link.channels)
    assert_equal(of_contract(live_rows(job, root)), of_contract(expected))
    assert_same_tables(live_results(job, root), run_job(job).tables)
    return expected


def assert_same_tables(found: Mapping[str, pa.Table], expected: Mapping[str, pa.Table]) -> None:
    """Assert that result tables are equal; the rows of windows are in tables of their own."""
    names = {name for name in expected if not name.startswith("output/")}
    assert set(found) == names
    for name in names:
        assert found[name].schema == expected[name].schema
        frames = found[name].to_pandas(), expected[name].to_pandas()
        pd.testing.assert_frame_equal(*frames, check_exact=True, obj=name)


def assert_same_rows(job: Job, *roots: Path) -> Ledgers:
    """Assert that two runs noted the same, their states included; return it."""
    one, other = (live_rows(job, root) for root in roots)
    assert_equal(one, other)
    return one


def saw(ledgers: Ledgers) -> set[str]:
    """Name what a run has been through: "floating", "waiting", "no credit", "blocked"."""
    seen: set[str] = set()
    for row in (row for rows in ledgers.values() for row in rows):
        if row["side"] == "receiver" and row["floating_held"] > 0:
            seen.add("floating")
        if row["side"] == "sender" and not row["channel_state"]["local"]:
            seen |= {"no credit"} if row["credit"] == 0 and row["backlog"] > 0 else set()
        task = row["task_state"] or {"gates": [], "times_us": (0, 0, 0)}
        seen |= {"waiting"} if any(gate["waiting"] for gate in task["gates"]) else set()
        seen |= {"blocked"} if task["times_us"][2] > 0 else set()
    return seen


# ---------------------------------------------------------------------- rows


class NoSpark:
    """Runs the one task of a job here; enough to split an input."""

    def __init__(self) -> None:
        self.jobs = 0

    @property
    def sparkContext(self) -> NoSpark:
        return self

    def parallelize(self, values: list[int], slices: int) -> NoSpark:
        assert (values, slices) == ([0], 1)
        return self

    def map(self, task: Callable[[int], Any]) -> NoSpark:
        self.task = task
        return self

    def collect(self) -> list[Any]:
        self.jobs += 1
        return [self.task(0)]


def split_input(job: Job, stage: str, root: Path) -> pa.Schema:
    """Split a source's input as a run does; return its columns."""
    folder = RunPaths(root).replay(stage)
    return stage_replay(NoSpark(), job, job.stage(stage), folder).schema()  # type: ignore[arg-type]


def routes(job: Job, edge: str, sender: int, count: int) -> list[int]:
    """Receivers of the first records that a subtask sends over an edge of made rows."""
    link = next(link for link in job.links if link.name == edge)
    own, kind = link.outgoing(sender), link.edge.partitioner
    weights = weights_of(link.edge, len(own)) or []
    behind, found = [0] * len(weights), list[int]()
    for number in range(count):
        if weights:
            place = next_by_share(behind, weights)
            count_share(behind, weights, sum(weights), place)
        elif kind == "shuffle":
            place = mix(job.scenario.seed, stream_of(f"{edge}/{sender}"), number) % len(own)
        else:
            place = (sender * (kind == "rebalance") + number) % len(own)
        found.append(own[place].receiver)
    return found


def taken(ledgers: Ledgers, edge: str) -> Counter[tuple[int, int]]:
    """Records of each channel that its receiver has taken up by the end of the run."""
    found: Counter[tuple[int, int]] = Counter()
    for row in (row for row in ledgers[edge] if row["side"] == "receiver"):
        found[row["sender"], row["receiver"]] += row["rows"]
    return found


def delivered(job: Job, ledgers: Ledgers) -> dict[tuple[str, int, int], list[int]]:
    """Numbers of the rows that must have come, in order, by (edge, sender, receiver).

    For edges that leave a source. The ledger says how many records of a channel were taken
    up, the partitioner which ones go there: these are the first so many of them.
    """
    found: dict[tuple[str, int, int], list[int]] = {}
    for link in job.links:
        for (sender, receiver), count in taken(ledgers, link.name).items():
            routed = link_routed(ledgers[link.name], sender)
            targets = routes(job, link.name, sender, routed)
            numbers = [number for number, target in enumerate(targets) if target == receiver]
            assert len(numbers) >= count
            found[link.name, sender, receiver] = numbers[:count]
    return found


def link_routed(rows: list[Row], sender: int) -> int:
    """Records that a subtask has routed over an edge by the end of the run."""
    own = (row for row in rows if row["side"] == "sender" and row["sender"] == sender)
    return sum(row["rows"] for row in own)


def batches_of(table: Path) -> list[tuple[int, pa.Table]]:
    """Return (time of commit, rows) of each file of an output table, in order.

    The files of a batch, a subtask each, have one time; they are ordered by their first rows.
    """
    actions = pa.table(DeltaTable(str(table)).get_add_actions(flatten=True)).to_pylist()
    files = [
        (action["modification_time"], pq.read_table(table / action["path"], partitioning=None))
        for action in actions
    ]
    return sorted(files, key=lambda file: (file[0], str(file[1].slice(0, 1).to_pylist())))


def rows_in_order(table: Path) -> list[tuple[str, int, int]]:
    """Return (source, subtask, number) of an output table's rows in the order of commits."""
    names = ("source", "source_subtask", "number")
    found: list[tuple[str, int, int]] = []
    for _, rows in batches_of(table):
        found += zip(*(rows.column(name).to_pylist() for name in names), strict=True)
    return found


def latencies(job: Job, ledgers: Ledgers, edge: str) -> dict[tuple[int, int], Counter[int]]:
    """Rounds from emission to taking up, by (round, receiver), worked out from both cursors."""
    emitted: dict[tuple[int, int], list[int]] = defaultdict(list)
    found: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for row in ledgers[edge]:  # by round; the receiver's rows of a round before the sender's
        channel, number = (row["sender"], row["receiver"]), row["batch_id"]
        if row["side"] == "sender":
            emitted[channel] += [number] * row["rows"]
        else:
            done, emitted[channel] = (
                emitted[channel][: row["rows"]],
                emitted[channel][row["rows"] :],
            )
            found[number, row["receiver"]].update(number - at for at in done)
    return found
