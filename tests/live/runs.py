"""Runs to compare: ledgers as tables, what a reference run says, and the rows that must come."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from flowcontrol.job import Job, build_physical_graph
from flowcontrol.job.reference import run_reference
from flowcontrol.job.routing import Router
from flowcontrol.ledger.ledger import read_history
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.replay import stage_replay
from flowcontrol.live.results import History, result_tables
from flowcontrol.records import LEDGER
from flowcontrol.scenario import parse_scenario
from reference_runs import tampered

Row = dict[str, Any]
Ledgers = dict[str, list[Row]]

KEY = ("batch_id", "side", "sender", "receiver")


def job_of(mapping: Mapping[str, Any]) -> Job:
    return build_physical_graph(parse_scenario(dict(mapping)))


# ---------------------------------------------------------------------- ledgers


def reference_tables(job: Job, tamper: Callable[..., None] | None = None) -> dict[str, pa.Table]:
    """Return the ledgers that a reference run would write, by edge."""
    rows: dict[str, list[Row]] = {link.name: [] for link in job.links}
    for after in run_reference(job) if tamper is None else tampered(job, tamper):
        for name, sides in after.rows.items():
            for side, found in sides.items():
                rows[name] += [{**row, "side": side, "batch_id": after.number} for row in found]
    schema = LEDGER.arrow_schema()
    return {name: pa.Table.from_pylist(found, schema=schema) for name, found in rows.items()}


def reference_results(job: Job, tamper: Callable[..., None] | None = None) -> dict[str, pa.Table]:
    """Return the result tables of a reference run; its latencies are empty."""
    return result_tables(job, History.of_tables(job, reference_tables(job, tamper)))


def live_tables(job: Job, root: Path) -> dict[str, pa.Table]:
    """Return the ledgers of a run, by edge."""
    paths = RunPaths(root)
    return {link.name: read_history(paths.ledger(link)) for link in job.links}


def live_results(job: Job, root: Path) -> dict[str, pa.Table]:
    """Return the result tables of a run."""
    return result_tables(job, History.of_run(job, RunPaths(root)))


def comparable(tables: Mapping[str, pa.Table], *, latency: bool = False) -> Ledgers:
    """Return the rows in order, without committed_at, and without what only a live run knows."""
    ledgers = {name: table.drop_columns(["committed_at"]) for name, table in tables.items()}
    found = {
        name: table.sort_by([(column, "ascending") for column in KEY]).to_pylist()
        for name, table in ledgers.items()
    }
    for row in (row for rows in found.values() for row in rows):
        for column in ("channel_state", "task_state"):
            row[column] = None if row[column] is None else json.loads(row[column])
        if row["task_state"] is not None and not latency:
            row["task_state"].pop("latency", None)
            row["task_state"].pop("control", None)
            row["task_state"].pop("sink", None)
            for name in (
                "blocked_us",
                "kept_in",
                "born",
                "alignment",
                "batches",
                "marked_us",
                "carried",
                "paused_before_us",
            ):
                row["task_state"].pop(name, None)
        if not latency and row["channel_state"] is not None:
            row["channel_state"].pop("marks", None)
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


def assert_is_reference(job: Job, root: Path) -> Ledgers:
    """Assert that a live run's ledgers are those of the reference run; return them."""
    expected = comparable(reference_tables(job))
    for link in job.links:  # every round, side and channel
        assert len(expected[link.name]) == 2 * job.rounds * len(link.channels)
    assert first_difference(comparable(live_tables(job, root)), expected) is None
    return expected


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
    router, own, found = Router(link, sender, job.scenario.seed), link.outgoing(sender), []
    for number in range(count):
        channel = router.next_channel(number)
        router.advance(channel)
        found.append(own[channel].receiver)
    return found


def taken(ledgers: Ledgers, edge: str) -> dict[tuple[int, int], int]:
    """Records of each channel that its receiver has taken up by the end of the run."""
    rows = [row for row in ledgers[edge] if row["side"] == "receiver"]
    last = max(row["batch_id"] for row in rows)
    return {
        (row["sender"], row["receiver"]): row["channel_state"]["channel"]["processed"]
        for row in rows
        if row["batch_id"] == last
    }


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
    own = [row for row in rows if row["side"] == "sender" and row["sender"] == sender]
    last = max(row["batch_id"] for row in own)
    return sum(row["channel_state"]["routed"] for row in own if row["batch_id"] == last)


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


def noted_latencies(ledgers: Ledgers, edge: str) -> dict[tuple[int, int], Counter[int]]:
    """The same as a live run has noted it in the task's state."""
    return {
        (row["batch_id"], row["receiver"]): Counter(dict(row["task_state"]["latency"]))
        for row in ledgers[edge]
        if row["side"] == "receiver" and row["task_state"] is not None
    }
