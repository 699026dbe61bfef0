"""kill -9 of any stage of a pipeline at any time: all rows arrive once, in order, within limits.

An ordinary run kills the middle stage once, which sends and receives: test_faults.py kills more,
without Spark. ``FLOWCONTROL_KILLS=200 ./run-tests.sh tests/link_kill -s`` is the long version, 10
to 20 s a kill. ``FLOWCONTROL_SEED`` repeats the plan of a run, though not its timing.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_pipeline_that_is_killed_again_and_again(tmp_path: Path) -> None:
    from harness import POINTS, Pipeline
    from verifier import LedgerCheck, check_table

    wanted = int(os.environ.get("FLOWCONTROL_KILLS", 1))
    seed = int(os.environ.get("FLOWCONTROL_SEED", random.randrange(1 << 32)))
    print(f"\n{wanted} kills, FLOWCONTROL_SEED={seed}, {tmp_path}", flush=True)
    run = tmp_path / "run"
    run.mkdir()
    pipeline = Pipeline(run, seed, wanted)
    try:
        pipeline.run()
    finally:
        pipeline.kill_all()

    assert len(pipeline.kills) == wanted
    starts = sum(stage.starts for stage in pipeline.stages)
    assert starts == wanted + len(pipeline.stages)
    due = set(POINTS) if wanted >= len(POINTS) else {"middle"}
    assert {kill.stage for kill in pipeline.kills} == due
    check_table(run / "table", pipeline.rows)
    for name, watch in pipeline.watches.items():
        check = LedgerCheck(run / f"link-{name}", watch.commits)
        check.check(pipeline.rows)
        pipeline.say(
            f"link {name}: {len(watch.commits)} commits, sender blocked in {check.blocked}, "
            f"receiver without credit in {check.waiting}"
        )
        assert check.blocked > 0
        assert check.waiting > 0
    met = {(kill.who, kill.point) for kill in pipeline.kills if kill.point}
    pipeline.say(f"{len(pipeline.kills)} kills, {len(met)} named points")
    if wanted >= 200:
        assert met == {point for points in POINTS.values() for point in points}
