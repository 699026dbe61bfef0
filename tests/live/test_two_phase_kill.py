"""kill -9 in the middle of a two-phase commit, with planted failures: no row lost or doubled.

Each kill is a SIGKILL of a process of its own, at a named point of a round. The long form kills 200
times (``FLOWCONTROL_KILLS`` says how often): all but a few are processes that run the stand-in
driver (``driver.py``: the real reader, foreachBatch function, tables and files, without a JVM); the
others run Spark, started as a user does.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from flowcontrol.live.folder import RunPaths
from flowcontrol.run import RunResult
from flowcontrol.spark.crash_points import CrashPoint
from modules import load

cases = load("tests/live/cases.py")
deliveries = load("tests/live/deliveries.py")
dying = load("tests/live/dying.py")
failing = load("tests/live/failing.py")
runs = load("tests/live/runs.py")

LONG = "FLOWCONTROL_LONG" in os.environ
KILLS = int(os.environ.get("FLOWCONTROL_KILLS", "200" if LONG else "3"))
"""Those of Spark included, which the quick form leaves out."""
SPARK_KILLS = 8 if LONG else 0
SEED = int(os.environ.get("FLOWCONTROL_SEED", random.randrange(1 << 32)))

MOST_IN_A_RUN = 12

PHASES = [
    CrashPoint.BEFORE_PRE_COMMIT,
    CrashPoint.AFTER_PRE_COMMIT,
    CrashPoint.BEFORE_COMMIT,
    CrashPoint.AFTER_COMMIT,
    CrashPoint.AFTER_COMMIT_NOTED,
    CrashPoint.BEFORE_RESTORE,
    CrashPoint.AFTER_RESTORE,
    CrashPoint.BEFORE_ABORT,
    CrashPoint.AMID_ABORT,
    CrashPoint.AFTER_ABORT,
    CrashPoint.AFTER_RESTORE_NOTED,
]
NOTED = {
    CrashPoint.AFTER_PRE_COMMIT,
    CrashPoint.AFTER_COMMIT_NOTED,
    CrashPoint.AFTER_RESTORE_NOTED,
    CrashPoint.AFTER_LEDGER,
}
"""Points behind the commit of the ledger: the round is not run again."""


@pytest.fixture(scope="module")
def zygote() -> Iterator[Any]:
    """Return what runs jobs in processes of their own."""
    started = dying.Zygote()
    yield started
    started.end()


def shapes(
    cases: ModuleType, deliveries: ModuleType, failing: ModuleType
) -> dict[str, dict[str, Any]]:
    """Return the jobs that are killed: what fails, and how barriers travel."""
    often = {"execution.checkpointing.interval": "100ms"}
    three = {**often, "execution.checkpointing.max-concurrent-checkpoints": 3}
    unaligned = {**often, "execution.checkpointing.unaligned": True}
    rate = [{"at_s": 0, "rate": 150}, {"at_s": 0.8, "rate": 700}]

    def job(case: Any, failures: Any, options: Any, ends_s: float, rounds: int, **sink: Any) -> Any:
        made = deliveries.exactly_once(case, ends_s=ends_s, service_rate=rate, **sink)
        return failing.failing(made, failures, rounds, options)

    pipelines = cases.scenario(
        "pipelines",
        [cases.source(rate=400, parallelism=2), cases.sink(parallelism=2)],
        [cases.edge("source", "sink", "forward")],
    )
    return {
        "a sink and a source fail": job(
            cases.KILLED,
            [{"at_s": 0.85, "stage": "sink", "subtask": 0},
             {"at_s": 1.65, "stage": "one", "subtask": 0}],
            three, 1.9, 44,
        ),
        "a task manager dies": job(
            cases.FAN_IN, [{"at_s": 1.05, "task_manager": 2}], {**unaligned, **failing.DEATHS},
            1.2, 38,
        ),
        "the job manager dies": job(
            cases.KILLED, [{"at_s": 0.95, "job_manager": True}], {**three, **failing.DEATHS},
            1.0, 36,
        ),
        "each subtask is a region": job(
            pipelines,
            [{"at_s": 0.75, "stage": "sink", "subtask": 0},
             {"at_s": 1.05, "stage": "sink", "subtask": 1}],
            three, 1.2, 32,
        ),
    }  # fmt: skip


def some_of(places: list[Any], most: int, chance: random.Random) -> list[Any]:
    """Choose places at which a run is killed, in the order in which it passes them.

    Phases of the commit more often than others: most places are before and behind ledgers.
    """
    phases = [one for one in places if one[2] in PHASES]
    others = [one for one in places if one[2] not in PHASES]
    share = min(len(phases), max(1, most * 3 // 4))
    chosen = {*chance.sample(phases, share), *chance.sample(others, most - share)}
    found, over = [], set[tuple[str, int]]()
    for stage, number, point in places:
        if (stage, number, point) in chosen and (stage, number) not in over:
            found.append((stage, number, point))
            if point in NOTED:
                over.add((stage, number))
    return found


def test_runs_that_are_killed_again_and_again(zygote: Any, tmp_path: Path) -> None:
    """Tables and ledgers are those of a run that nobody kills, and each row of the input is there.

    A reader polls the table meanwhile, from this process.
    """
    planned = KILLS - SPARK_KILLS
    print(f"FLOWCONTROL_SEED={SEED}: {planned} kills")
    chance, killed, wholes = random.Random(SEED), Counter[str](), dict[str, Path]()
    every, found = shapes(cases, deliveries, failing), Counter[str]()
    names = list(every) if LONG else ["each subtask is a region"]  # the others take longer
    for number in count():
        name = names[number % len(names)]
        job = runs.job_of(every[name])
        oracle = deliveries.Oracle.of(job)
        whole = wholes.setdefault(name, tmp_path / f"whole-{len(wholes)}")
        if not whole.exists():
            assert zygote.run(every[name], whole) == 0
            runs.assert_is_virtual(job, whole)
        left = planned - killed.total()
        places = some_of(dying.places_of(whole), min(left, MOST_IN_A_RUN), chance)
        root = tmp_path / f"killed-{number}"
        reader = deliveries.Reader(root / "output" / "sink", oracle)
        poller = deliveries.Poller(reader, job, "sink", RunPaths(root))
        poller.start()
        for place in places:
            assert zygote.run(every[name], root, place) == -signal.SIGKILL, (SEED, name, place)
            killed[place[2]] += 1
        assert zygote.run(every[name], root) == 0, (SEED, name, places)
        poller.end()
        found.update(dict(zip(("early", "doubled", "taken back"), reader.found, strict=True)))
        found["looks"] += reader.looks
        runs.assert_same_rows(job, root, whole)
        final = assert_same_versions(deliveries, root, whole)
        assert deliveries.committed(job, root)[-1] == final.total()
        numbers = deliveries.numbers(oracle.emitted)
        found["rows"] += len(numbers)
        found["lost"] += len(numbers - set(final))
        found["unknown"] += len(set(final) - numbers)
        if killed.total() == planned:
            break
    print(f"{dict(killed)} in {number + 1} runs: {dict(found)}")
    assert killed.total() == planned > 0
    wrong = ("early", "doubled", "taken back", "lost", "unknown")
    assert {one: found[one] for one in wrong} == dict.fromkeys(wrong, 0)
    if LONG:
        assert {point for point in PHASES if not killed[point]} == set()


def assert_same_versions(deliveries: ModuleType, *roots: Path) -> Counter[Any]:
    """Assert that the tables of two runs had the same versions; return the rows of the last one."""
    one, other = (
        list(deliveries.versions(root / "output" / "sink", f"{run_id(root)}/sink"))
        for root in roots
    )
    assert one == other
    assert len(one) >= 2
    final: Counter[Any] = one[-1][1]
    return final


def run_id(root: Path) -> str:
    """Return the identity of a run; the stand-in driver has a fixed one."""
    noted = root / "run.json"
    return str(json.loads(noted.read_text())["run_id"]) if noted.exists() else "run"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long  # Spark is killed in test_kill.py, and the stand-in in a commit above
def test_spark_is_killed_in_a_commit(
    zygote: Any, run_live: Callable[..., RunResult], tmp_path: Path
) -> None:
    """The driver, its JVM and their workers: what is left is that of the stand-in's whole run."""
    shape = shapes(cases, deliveries, failing)["each subtask is a region"]
    job, whole, root = runs.job_of(shape), tmp_path / "whole", tmp_path / "killed"
    assert zygote.run(shape, whole) == 0
    chance = random.Random(SEED)
    phases = [one for one in dying.places_of(whole) if one[2] in set(PHASES) - NOTED]
    places = sorted(chance.sample(phases, SPARK_KILLS), key=phases.index)
    print(f"FLOWCONTROL_SEED={SEED}: {places}")
    scenario = tmp_path / "killed.yaml"
    scenario.write_text(yaml.safe_dump(shape))
    kills = 0
    for place in places:
        status, said = dying.emulate(scenario, root, place)
        assert status == -signal.SIGKILL, said
        kills += 1
    assert kills == SPARK_KILLS >= 1
    run_live(job.scenario, root)
    runs.assert_is_virtual(job, root)
    final = assert_same_versions(deliveries, root, whole)
    oracle = deliveries.Oracle.of(job)
    assert final == dict.fromkeys(deliveries.numbers(oracle.emitted), 1)
