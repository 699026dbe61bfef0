"""Where chunks run: in Spark's Python workers, with the real clock."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pandas as pd
import pytest

from flowcontrol.errors import RunError
from flowcontrol.experiments import executor
from flowcontrol.experiments.executor import (
    ProcessExecutor,
    SparkExecutor,
    make_executor,
    reason_of,
)
from flowcontrol.experiments.sweep import sweep

RATE = "stages.sink.service_rate"


@pytest.fixture
def by_value(fakes):
    """Let Spark's workers have the module of fakes, which they cannot import."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(fakes)
    yield fakes
    cloudpickle.unregister_pickle_by_value(fakes)


@pytest.mark.spark
@pytest.mark.slow
def test_a_sweep_on_spark(spark, chain, tmp_path):
    """With the virtual clock itself; compared with the same sweep in this process."""
    chain |= {"duration_s": 2, "round_ms": 20}
    vary = {RATE: "100:1000:4", "stages.map.parallelism": [1, 2]}
    warnings = []
    on_spark = sweep(chain, vary, out=tmp_path / "a", spark=spark, warn=warnings.append)
    here = sweep(chain, vary, out=tmp_path / "b", processes=1)
    key = [("variant", "ascending"), ("stage", "ascending")]
    tables = [r.table.drop_columns(["wall_s"]).sort_by(key) for r in (on_spark, here)]
    assert tables[0].num_rows == 8 * 3
    assert tables[0].equals(tables[1])
    assert [text for text in warnings if not text.startswith("compiling")] == []
    assert spark.read.parquet(f"{tmp_path}/a/results/*.parquet").count() == 24


@pytest.mark.spark
def test_the_tasks_of_one_job_are_the_chunks(spark, chain, tmp_path, by_value):
    before = set(spark.sparkContext.statusTracker().getJobIdsForGroup(None))
    result = sweep(
        chain, {RATE: "1:40:40"}, out=tmp_path / "out", spark=spark, simulate=by_value.simulate
    )
    assert result.table.num_rows == 120
    tracker = spark.sparkContext.statusTracker()
    (job,) = set(tracker.getJobIdsForGroup(None)) - before
    tasks = sum(tracker.getStageInfo(stage).numTasks for stage in tracker.getJobInfo(job).stageIds)
    # A chunk that takes longer than 5 s hands its rows over in several files.
    files = (tmp_path / "out" / "results").glob("*.parquet")
    chunks = {file.stem.split("-")[-2] for file in files}
    assert 8 <= len(chunks) == tasks < 40


@pytest.mark.spark
def test_workers_that_die_fail_the_sweep_and_what_is_done_stays(spark, chain, tmp_path, by_value):
    vary = {RATE: [250, *range(300, 320)]}
    with pytest.raises(RunError, match="the workers failed"):
        sweep(chain, vary, out=tmp_path / "out", spark=spark, simulate=by_value.dies_at_250)
    again = by_value.Recording()
    result = sweep(chain, vary, out=tmp_path / "out", processes=1, simulate=again)
    assert result.table.num_rows == 63
    assert 1 <= len(again.ran) <= 21


@pytest.mark.spark
def test_a_sweep_on_spark_that_is_stopped_ends(spark, chain, tmp_path, monkeypatch, by_value):
    marks = tmp_path / "marks"
    marks.mkdir()

    def slowly(scenario):
        (marks / f"{time.monotonic_ns()}").touch()
        time.sleep(0.2)
        return by_value.simulate(scenario)

    class Impatient:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def update(self, done, failed=0):
            if done >= 4:
                raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        sweep(chain, {RATE: "1:1000:1000"}, out=out, spark=spark, simulate=slowly,
              progress=lambda *_: Impatient())  # fmt: skip
    before, now = -1, 0
    while now > before:  # until what was under way has ended, however slow the machine is
        before = now
        time.sleep(1)
        now = len(list(marks.iterdir()))
    assert 4 <= now < 1000
    assert spark.range(3).count() == 3  # the session is as good as before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("one\ntwo", "ValueError: one"),
        ("", "ValueError: "),
        ("Traceback ...\n  File x\nKeyError: 'a'\n SQLSTATE: 1\n\tat java", "KeyError: 'a'"),
        ("x\na.b.SomeException: y\nModuleNotFoundError: z\n", "ModuleNotFoundError: z"),
    ],
)
def test_one_line_is_said_of_an_error(text, reason):
    assert reason_of(ValueError(text)) == reason


@pytest.mark.parametrize("kind", [OSError, RunError])
def test_a_spark_that_cannot_be_started_is_no_dead_end(monkeypatch, kind):
    def broken(name):
        raise kind("no Java here\nsecond line")

    monkeypatch.setattr(executor, "get_session", broken)
    with pytest.raises(RunError) as caught:
        make_executor(None, None)
    for text in ("no Java here", "--processes 2"):
        assert text in str(caught.value)


def test_a_session_is_started_when_it_is_needed_only(chain, fakes, tmp_path, monkeypatch):
    def broken(name):
        raise OSError("no Java here")

    monkeypatch.setattr(executor, "get_session", broken)
    vary = {RATE: [100]}
    with pytest.raises(RunError, match="no Java here"):
        sweep(chain, vary, out=tmp_path, simulate=fakes.simulate)
    sweep(chain, vary, out=tmp_path, processes=1, simulate=fakes.simulate)
    assert sweep(chain, vary, out=tmp_path).table.num_rows == 3


@pytest.mark.parametrize("count", [0, -1])
def test_there_is_at_least_one_process(count):
    with pytest.raises(ValueError, match=f"{count} processes"):
        ProcessExecutor(count)


def test_one_process_is_a_thread_of_this_one(chain, fakes, tmp_path):
    threads = set()

    def here(scenario):
        threads.add(threading.current_thread().name)
        return fakes.simulate(scenario)

    sweep(chain, {RATE: [1, 2, 3]}, out=tmp_path, processes=1, simulate=here)
    assert len(threads) == 1
    assert threads != {threading.current_thread().name}


@pytest.mark.spark
def test_spark_says_how_many_tasks_it_runs_at_a_time(spark):
    assert SparkExecutor(spark).workers == 2


@pytest.mark.parametrize("is_compiled", [True, False])
def test_workers_without_a_compiler_are_remarked_on_once(chain, tmp_path, monkeypatch, is_compiled):
    """The clock itself, interpreted or not, on something tiny."""
    monkeypatch.setattr("flowcontrol.experiments.sweep.store.is_compiled", lambda: is_compiled)
    said = []
    chain |= {"duration_s": 1, "round_ms": 50, "sample_interval_s": 0.5}
    sweep(chain, {RATE: "100:500:5"}, out=tmp_path, processes=1, warn=said.append)
    said = [text for text in said if not text.startswith("compiling")]
    assert len(said) == (0 if is_compiled else 1)
    assert is_compiled or "install numba" in said[0]


class Cluster:
    """A session of a cluster of which each task runs here."""

    def __init__(self, machines: list[str]) -> None:
        self.sparkContext = self
        self.master, self.defaultParallelism = "spark://host:7077", len(machines)
        self.machines = machines
        self.asked = 0

    def range(self, *_: int) -> Cluster:
        return self

    def mapInPandas(self, function: Any, schema: str) -> Cluster:
        self.asked += 1
        frames = [pd.DataFrame({"id": [i]}) for i in range(len(self.machines))]
        self.found = []
        for frame, machine in zip(frames, self.machines, strict=True):
            with mock.patch("socket.gethostname", return_value=machine):
                self.found += [
                    SimpleNamespace(machine=m) for m in next(function(iter([frame]))).machine
                ]
        return self

    def collect(self) -> list[Any]:
        return self.found


@pytest.mark.parametrize(
    ("cold", "machines", "said"),
    [
        (
            True,
            ["a"],
            ["compiling the virtual clock on 1 machine of the cluster, usually 10 to 25 s, once"],
        ),
        (
            True,
            ["a", "b", "a"],
            ["compiling the virtual clock on 2 machines of the cluster, usually 10 to 25 s, once"],
        ),
        (False, ["a", "b"], []),
    ],
)
def test_a_cluster_says_that_it_compiles(monkeypatch, capsys, cold, machines, said):
    monkeypatch.setattr(executor, "lacks_kernel", lambda parts: cold)
    monkeypatch.setattr(executor, "warm_up", lambda parts: pytest.fail("compiled on the driver"))
    cluster = Cluster(machines)
    SparkExecutor(cluster).warm_up(5)
    assert (capsys.readouterr().err.splitlines(), cluster.asked) == (said, 1)


def test_a_cluster_that_fails_says_so_when_the_work_starts(monkeypatch, capsys):
    cluster = Cluster(["a"])
    monkeypatch.setattr(cluster, "collect", lambda: 1 / 0)
    SparkExecutor(cluster).warm_up(5)
    assert capsys.readouterr().err == ""


def test_this_machine_compiles_before_its_processes_would(monkeypatch):
    compiled = []
    monkeypatch.setattr(executor, "warm_up", compiled.append)
    ProcessExecutor(2).warm_up(5)
    assert compiled == [5]


@pytest.mark.parametrize(
    ("master", "is_local"),
    [("local", True), ("local[*]", True), ("local-cluster[1,1,512]", False), ("yarn", False)],
)
def test_a_local_master_is_known(master, is_local):
    cluster = Cluster(["a"])
    cluster.master = master
    assert executor._is_local(cluster) == is_local
