"""A sink that writes exactly once on the live clock: what its readers see, and kills in between."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import load_scenario
from flowcontrol.spark.crash_points import CrashPoint
from modules import load

cases = load("tests/live/cases.py")
deliveries = load("tests/live/deliveries.py")
driver = load("tests/live/driver.py")
failing = load("tests/live/failing.py")
runs = load("tests/live/runs.py")

CONF = Path(__file__).resolve().parents[2] / "conf"

CHECKPOINTING = "execution.checkpointing."
OFTEN = {f"{CHECKPOINTING}interval": "100ms", f"{CHECKPOINTING}max-concurrent-checkpoints": 3}
"""With state that takes long to write, several transactions wait at once."""

PRE_COMMIT = {CrashPoint.BEFORE_PRE_COMMIT, CrashPoint.AFTER_PRE_COMMIT}
COMMIT = {CrashPoint.BEFORE_COMMIT, CrashPoint.AFTER_COMMIT, CrashPoint.AFTER_COMMIT_NOTED}


def two_sinks(cases: ModuleType, deliveries: ModuleType, **mode: Any) -> dict[str, Any]:
    """Two sources, a stage between, and two subtasks of a sink that is slow at first."""
    rate = [{"at_s": 0, "rate": 100}, {"at_s": 0.5, "rate": 900}]
    case = {**cases.KILLED, "duration_s": 2.2}
    case["cluster"] = {**case["cluster"], "upload_bytes_per_s": 100e6}
    found: dict[str, Any] = deliveries.exactly_once(
        case, ends_s=0.8, service_rate=rate, mode=OFTEN | mode, state={"bytes": 20_000_000}
    )
    return found


def read_while_running(
    job: Any, root: Path, driver: ModuleType, deliveries: ModuleType, crashes: Any = None
) -> Any:
    """Run a job, and look at its sink's table after each batch; return the driver."""
    oracle = deliveries.Oracle.of(job)
    reader = deliveries.Reader(root / "output" / "sink", oracle)

    def look(stage: str, number: int) -> None:
        reader.look(lambda: number if stage == "sink" else number + 1)

    started = driver.Driver(job, root, crashes, watch=look)
    started.run()
    assert reader.found == (0, 0, 0)
    assert reader.looks >= job.rounds
    assert reader.changes >= 4
    return started


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that nobody kills."""
    root = tmp_path_factory.mktemp("whole")
    read_while_running(runs.job_of(two_sinks(cases, deliveries)), root, driver, deliveries)
    return root


def test_a_version_of_the_table_is_a_checkpoint(whole: Path) -> None:
    job = runs.job_of(two_sinks(cases, deliveries))
    oracle = deliveries.Oracle.of(job)
    runs.assert_is_virtual(job, whole)
    found = list(deliveries.versions(whole / "output" / "sink", "run/sink"))
    for checkpoint, rows in found:
        assert set(rows) == oracle.before(checkpoint)
        assert set(rows.values()) == {1}
    numbers = [checkpoint for checkpoint, _ in found]
    assert numbers == sorted(set(numbers))
    assert len(numbers) >= 4
    assert set(numbers) <= set(oracle.heard)
    # FLIP-147: with the last checkpoint the whole input is visible.
    assert len(found[-1][1]) == sum(oracle.emitted.values()) == 485
    assert oracle.waiting >= 2
    seen = deliveries.committed(job, whole)
    assert set(seen) <= {0, *(len(rows) for _, rows in found)}
    assert 0 < seen[1] < seen[-1] == 485


@pytest.mark.parametrize("at", [pytest.param(None, marks=pytest.mark.long), {5, 9}])
def test_a_crash_at_every_place(at: set[int] | None, whole: Path, tmp_path: Path) -> None:
    """At every named point, and around the table's commits: as if there had been none.

    What comes behind the commit of a ledger is not reached where the run dies at that.
    """

    class Some(driver.Crashes):  # type: ignore[name-defined, misc]
        def reach(self, *place: object) -> None:
            if place[:2] == ("point", "sink"):
                is_wanted = at is None or place[2] in at
            else:
                is_wanted = at is None and "ledger" not in str(place[1])
            if is_wanted:
                super().reach(*place)

    job = runs.job_of(two_sinks(cases, deliveries))
    crashes = Some(named=True)
    killed = read_while_running(job, tmp_path, driver, deliveries, crashes)
    assert killed.starts == len(crashes.places) + 1
    assert {place[3] for place in crashes.places if place[0] == "point"} >= PRE_COMMIT | COMMIT
    runs.assert_is_virtual(job, tmp_path)
    runs.assert_same_rows(job, tmp_path, whole)
    tables = [root / "output" / "sink" for root in (tmp_path, whole)]
    one, other = (list(deliveries.versions(table, "run/sink")) for table in tables)
    assert one == other
    assert len(one) >= 4
    files = [{path.name for path in table.glob("*.parquet*")} for table in tables]
    assert files[0] == files[1]  # no orphan either


@pytest.mark.parametrize(
    "mode",
    [
        {f"{CHECKPOINTING}unaligned": True, f"{CHECKPOINTING}max-concurrent-checkpoints": 1},
        {f"{CHECKPOINTING}mode": "AT_LEAST_ONCE"},
    ],
    ids=["unaligned", "at-least-once"],
)
def test_whatever_the_barriers_do_each_row_comes_once_and_with_its_checkpoint(
    mode: dict[str, Any], tmp_path: Path
) -> None:
    """Two gates; what an unaligned barrier overtakes belongs to the next transaction.

    With at-least-once barriers a transaction also has what came behind the first of them.
    """
    slow = [{"at_s": 0, "rate": 100}, {"at_s": 0.7, "rate": 900}]
    case = {**cases.FAN_IN, "duration_s": 2.4}
    job = runs.job_of(
        deliveries.exactly_once(case, ends_s=0.7, service_rate=slow, mode=OFTEN | mode)
    )
    oracle = deliveries.Oracle.of(job)
    driver.Driver(job, tmp_path).run()
    runs.assert_is_virtual(job, tmp_path)
    found = list(deliveries.versions(tmp_path / "output" / "sink", "run/sink"))
    assert len(found) >= 2
    others = 0
    for checkpoint, rows in found:
        assert set(rows.values()) == {1}
        assert len(rows) == oracle.written[checkpoint]
        if f"{CHECKPOINTING}unaligned" in mode:
            assert set(rows) <= oracle.before(checkpoint)
        else:
            assert set(rows) >= oracle.before(checkpoint)
        others += set(rows) != oracle.before(checkpoint)
    assert others > 0
    assert oracle.cut_rounds > 0 or f"{CHECKPOINTING}unaligned" in mode
    assert len(found[-1][1]) == sum(oracle.emitted.values()) > 400


def test_what_no_checkpoint_covers_is_never_visible(tmp_path: Path) -> None:
    """The run ends before the last checkpoint; and without checkpoints nothing is visible."""
    cut_off = {**two_sinks(cases, deliveries), "duration_s": 1.0}
    never = {**cases.SINGLE, "duration_s": 0.6}
    never["stages"] = [never["stages"][0], {**never["stages"][1], "guarantee": "exactly-once"}]
    for name, case in {"cut-off": cut_off, "never": never}.items():
        job = runs.job_of(case)
        driver.Driver(job, tmp_path / name).run()
        table = tmp_path / name / "output" / "sink"
        visible = sum(deliveries.rows_of(DeltaTable(str(table))).values())
        staged = sum(pq.read_metadata(path).num_rows for path in table.glob("*.parquet"))
        ledgers = runs.live_rows(job, tmp_path / name)
        taken = sum(
            sum(runs.taken(ledgers, link.name).values()) for link in job.stage("sink").inputs
        )
        assert staged == taken > visible
        assert (visible > 0) == (name == "cut-off")


SHORTENED = (
    "duration_s=4",
    "round_ms=100",
    "options.execution.buffer-timeout.interval=100ms",
    "options.execution.checkpointing.interval=500ms",
    "options.restart-strategy.fixed-delay.delay=200ms",
    "failures=[{at_s: 1.7, stage: map, subtask: 0}]",
    "stages.source.arrival_rate=[{at_s: 0, rate: 150}, {at_s: 2.6, rate: 0}]",
    "stages.sink.output={format: delta}",
)


def test_the_commits_of_conf_are_real(tmp_path: Path) -> None:
    """A source that reads a log comes back to where it was, so all of the input is visible."""
    job = build_physical_graph(
        load_scenario(CONF / "two-phase-commit.yaml", overrides=list(SHORTENED))
    )
    driver.Driver(job, tmp_path).run()
    runs.assert_is_virtual(job, tmp_path)
    assert [one.checkpoint > 0 for one in failing.restarts_of(job).restarts] == [True]
    oracle = deliveries.Oracle.of(job)
    found = list(deliveries.versions(tmp_path / "output" / "sink", "run/sink"))
    assert len(found) >= 3
    for checkpoint, rows in found:
        assert set(rows) == oracle.before(checkpoint)
        assert set(rows.values()) == {1}
    assert deliveries.committed(job, tmp_path)[-1] == len(found[-1][1])
    assert set(found[-1][1]) == deliveries.numbers(oracle.emitted)
