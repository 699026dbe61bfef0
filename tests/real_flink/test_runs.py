"""Flink and the emulation run the same thing: what each is handed says so."""

from __future__ import annotations

import pytest
import runs
import translate

from flowcontrol.scenario import parse_scenario


@pytest.mark.parametrize("run", runs.RUNS, ids=str)
def test_flink_gets_the_rates_of_every_subtask_and_records_of_the_stated_size(
    run: runs.RunName,
) -> None:
    stated = runs.scenario(run)
    job = runs.flink_job(run)
    record_bytes = 517 if run.job == "fan" else 1017
    assert job["duration_s"] == stated["duration_s"]
    for stage, described in zip(job["stages"], stated["stages"], strict=True):
        assert stage["name"] == described["name"]
        assert stage["payload_bytes"] + translate.RECORD_OVERHEAD_BYTES == record_bytes
        rate = described.get("emit_rate", described.get("service_rate"))
        rates = rate if isinstance(rate, list) else [rate] * described.get("parallelism", 1)
        assert stage["rates"] == [[[0, one]] for one in rates]


@pytest.mark.parametrize("run", runs.RUNS, ids=str)
def test_channels_cross_the_network_or_all_are_local(run: runs.RunName) -> None:
    stated = runs.scenario(run)
    subtasks = sum(stage.get("parallelism", 1) for stage in stated["stages"])
    is_local = run.job == "local-chain"
    machines = {"task_managers": 1, "slots": subtasks}
    spread = {"task_managers": subtasks, "slots": 1}
    assert stated["cluster"] == (machines if is_local else spread)
    assert {edge["partitioner"] for edge in stated["edges"]} == {"rebalance"}
    job = runs.flink_job(run)
    assert job["slots"] == ([subtasks] if is_local else [1] * subtasks)


@pytest.mark.parametrize("job", runs.JOBS)
def test_a_job_is_a_scenario_whose_last_stage_is_a_sink(job: str) -> None:
    stated = runs.scenario(runs.RunName(job, "aligned"))
    options = {key: value for key, value in stated["options"].items() if "checkpoint" not in key}
    scenario = parse_scenario({**stated, "options": options})
    # Runner joins the stages in this order and drops what the last one gets.
    assert [stage.name for stage in scenario.topological()] == [
        stage["name"] for stage in stated["stages"]
    ]


def test_modes_say_how_barriers_go_in_flink_own_words() -> None:
    options = runs.flink_job(runs.RunName("chain", "timeout"))["options"]
    assert options["execution.checkpointing.unaligned.enabled"] == "true"
    assert options["execution.checkpointing.aligned-checkpoint-timeout"] == "300ms"
    aligned = runs.flink_job(runs.RunName("chain", "aligned"))["options"]
    assert not [key for key in aligned if "aligned" in key]


def test_runs_are_chosen_by_their_name_their_job_or_their_mode() -> None:
    assert runs.chosen([]) == list(runs.RUNS)
    assert [str(run) for run in runs.chosen(["chain-aligned"])] == ["chain-aligned"]
    assert {run.job for run in runs.chosen(["unaligned"])} == {
        "chain",
        "exchange",
        "even-exchange",
        "local-chain",
    }
    assert {run.mode for run in runs.chosen(["slow-map"])} == {"aligned"}
    with pytest.raises(SystemExit, match="no run, job or mode is named chains"):
        runs.chosen(["chain", "chains"])
