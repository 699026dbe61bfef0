"""What would help slow checkpoints, found by running it on the virtual clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flowcontrol import emulate
from flowcontrol.layout.job import Job
from flowcontrol.results.run import Run
from flowcontrol.run.remedies import checkpoint_remedies
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.virtual import clock, simulate

OPTION = "execution.checkpointing."
MEMORY = "taskmanager.network.memory."


def scenario(rate: int = 30, **options: Any) -> Scenario:
    """A sink of so many records/s, of 1 kB each, behind channels that can hold 40 of 4 KiB."""
    stated = {
        "taskmanager.memory.segment-size": "4kb",
        f"{OPTION}interval": "2s",
        f"{OPTION}timeout": "2500ms",
        f"{OPTION}tolerable-failed-checkpoints": 100,
        **options,
    }
    return parse_scenario(
        {
            "schema": 1, "name": "slow", "duration_s": 20, "round_ms": 10, "options": stated,
            "stages": [{"name": "source", "emit_rate": 1000, "record_bytes": 1000},
                       {"name": "sink", "service_rate": rate}],
            "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
        }
    )  # fmt: skip


def names(found: list[dict[str, Any]]) -> list[str]:
    return [one["name"] for one in found]


def test_each_remedy_is_run_with_the_options_that_it_names() -> None:
    unaligned, debloated, halved = checkpoint_remedies(scenario(120))
    assert unaligned["changes"] == {f"{OPTION}unaligned.enabled": True}
    assert debloated["changes"] == {f"{MEMORY}buffer-debloat.enabled": True}
    assert halved["changes"] == {
        f"{MEMORY}buffers-per-channel": 1,
        f"{MEMORY}floating-buffers-per-gate": 4,
        f"{MEMORY}max-buffers-per-channel": 5,
    }
    assert unaligned["completed"] == unaligned["triggered"] == 9
    assert unaligned["e2e"]["max_ms"] < 100 < halved["e2e"]["min_ms"]
    assert unaligned["persisted_bytes"] > 30_000
    assert debloated["persisted_bytes"] == halved["persisted_bytes"] == 0
    rates = [one["rate_in"] for one in (unaligned, debloated, halved)]
    assert rates == pytest.approx([120] * 3, rel=0.02)


def test_twice_the_upload_bandwidth_is_tried_where_something_is_uploaded() -> None:
    """4 MB at 4 MB/s are a second, at 8 MB/s half of it."""
    own = scenario(1000).canonical()
    own["cluster"] = {"upload_bytes_per_s": 4e6}
    own["stages"][1]["state"] = {"bytes": 4_000_000}
    found = {one["name"]: one for one in checkpoint_remedies(parse_scenario(own))}
    quicker = found["twice the upload bandwidth"]
    assert quicker["changes"] == {"cluster.upload_bytes_per_s": 8e6}
    assert quicker["e2e"]["p50_ms"] == pytest.approx(500, abs=60)
    assert found["half the buffers"]["e2e"]["p50_ms"] == pytest.approx(1000, abs=60)


@pytest.mark.parametrize(
    ("transport", "name", "changes"),
    [
        ({"name": "blocking_queue", "slots": 80}, "slots", {"slots": 40}),
        ({"name": "half_return_credit", "slots": 81}, "slots", {"slots": 40}),
        ({"name": "batched_credit", "slots": 80, "lot": 20}, "slots", {"slots": 40}),
        ({"name": "batched_credit", "slots": 80, "lot": 64}, "slots", {"slots": 40, "lot": 40}),
        ({"name": "cumulative_credit", "credit": 80, "mark": 64}, "credit",
         {"credit": 40, "mark": 40}),
    ],
    ids=["queue", "permits", "lots", "large lots", "deliveries"],
)  # fmt: skip
def test_half_the_slots_are_tried_where_records_are_counted(
    transport: Any, name: str, changes: dict[str, int]
) -> None:
    """Half as much is ahead of a barrier: it takes half as long, but for what the round adds."""
    own = scenario(100).canonical()
    half = transport | changes
    whole, halved = ({**own, "system": {"transport": one}} for one in (transport, half))
    (found,) = checkpoint_remedies(parse_scenario(whole))
    assert found["name"] == f"half the {name}"
    assert found["changes"] == {f"system.transport.{key}": value for key, value in changes.items()}
    own_e2e = simulated_ms(whole)
    assert found["e2e"]["p50_ms"] == pytest.approx(simulated_ms(halved))
    assert 0.3 * own_e2e < found["e2e"]["p50_ms"] < 0.7 * own_e2e


def simulated_ms(mapping: Any) -> float:
    tables = simulate(parse_scenario(mapping)).tables
    rows = tables["checkpoints"].to_pandas()
    return float(rows[rows.status == "completed"].e2e_ms.median())


@pytest.mark.parametrize("transport", ["unbounded", {"name": "blocking_queue", "slots": 1}])
def test_there_is_no_half_of_nothing(transport: Any) -> None:
    own = {**scenario(100).canonical(), "system": {"transport": transport}}
    assert checkpoint_remedies(parse_scenario(own)) == []


def test_what_the_scenario_has_already_is_not_tried_again() -> None:
    has = {f"{OPTION}unaligned.enabled": True, f"{MEMORY}buffer-debloat.enabled": True}
    assert names(checkpoint_remedies(scenario(**has))) == [
        "half the buffers",
        "twice the upload bandwidth",
    ]
    at_least_once = scenario(**{f"{OPTION}mode": "AT_LEAST_ONCE"})
    assert "unaligned checkpoints" not in names(checkpoint_remedies(at_least_once))


def test_a_remedy_that_flink_refuses_is_left_out() -> None:
    several = scenario(**{f"{OPTION}max-concurrent-checkpoints": 2})
    assert names(checkpoint_remedies(several)) == ["buffer debloating", "half the buffers"]


def test_a_long_run_is_not_tried_and_a_job_without_checkpoints_neither() -> None:
    """2,000 rounds of two subtasks and a channel."""
    assert checkpoint_remedies(scenario(), most_steps=5999) == []
    assert len(checkpoint_remedies(scenario(), most_steps=6000)) == 3
    options = scenario().options.model_copy(update={"checkpoint_interval_us": None})
    assert checkpoint_remedies(scenario().model_copy(update={"options": options})) == []


@pytest.mark.parametrize(("rate", "is_slow"), [(30, True), (1000, False)])
def test_the_page_of_a_virtual_run_has_them_if_checkpoints_are_slow(
    rate: int, is_slow: bool, tmp_path: Path
) -> None:
    run = emulate(scenario(rate), clock="virtual", out=tmp_path / "run", quiet=True)
    found = json.loads((tmp_path / "run" / "summary.json").read_text())["checkpoints"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert (found["counts"]["expired"] > 0) == is_slow
    assert ('id="checkpoint-remedies"' in page) == is_slow
    assert ("with unaligned checkpoints 9 of 9 completed" in found["sentences"][-1]) == is_slow
    if is_slow:
        own = run.summary["checkpoints"]
        first = found["remedies"][0]
        assert (first["name"], first["changes"]) == ("the scenario as it is", {})
        assert first["completed"] == own["counts"]["completed"]
        assert "<td>unaligned checkpoints</td><td>9 of 9</td>" in page
    else:
        assert "remedies" not in found


def test_a_run_without_advice_runs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for slow checkpoints nor for the guarantees of a job that fails."""
    ran: list[Job] = []
    run_job = clock.run_job

    def noted(job: Job, **rest: Any) -> Run:
        ran.append(job)
        return run_job(job, **rest)

    monkeypatch.setattr(clock, "run_job", noted)
    mapping = scenario(30).canonical()
    mapping["stages"][1]["guarantee"] = "exactly-once"
    mapping["failures"] = [{"at_s": 5, "stage": "sink", "subtask": 0}]
    emulate(mapping, clock="virtual", out=tmp_path / "alone", advice=False, quiet=True)
    assert len(ran) == 1
    found = emulate(mapping, clock="virtual", out=tmp_path / "more", quiet=True).summary
    assert len(found["checkpoints"]["remedies"]) + len(found["delivery"]["guarantees"]) == 7
    assert len(ran) == 2 + 3 + 3
