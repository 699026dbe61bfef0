"""What a real Flink cannot express is refused by name: place, what is missing, what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import refusals
from runs import HERE

from conf_list import CONF, those
from flowcontrol.errors import ScenarioError
from flowcontrol.scenario.given import as_scenario

JOBS = HERE / "jobs"

EXPRESSED = {
    *those("flink"),
    *("01-chain", "02-threads", "03-task-managers", "05-with-credits", "06-backlog-and-credit"),
    *("07-exclusive-and-floating", "10-barrier-alignment", "11-two-phase-commit", "08-pools"),
}
"""Scenarios of conf/ and conf/tour/ that a real Flink runs."""


@pytest.mark.parametrize("file", sorted(CONF.rglob("*.yaml")), ids=lambda file: file.stem)
def test_every_scenario_of_conf_is_run_or_refused(file: Path) -> None:
    found = list(refusals.refusals(as_scenario(file)))
    assert (found == []) == (file.stem in EXPRESSED)


@pytest.mark.parametrize(
    ("changes", "place", "words"),
    [
        ({"system": "flink-1.4"}, "system.transport", "by credits and nothing else; use system"),
        ({"system": "spark-streaming"}, "system.throttle", "no throttle of sources"),
        ({"cluster.network_latency_ms": 5}, "cluster.network_latency_ms", "loopback"),
        ({"cluster.bandwidth_bytes_per_s": 1e6}, "cluster.bandwidth_bytes_per_s", "loopback"),
        ({"cluster.control_latency_ms": 5}, "cluster.control_latency_ms", "leave it out"),
        ({"cluster.upload_slowdown": 0.5}, "cluster.upload_slowdown", "0.5: nothing slows"),
        (
            {"stages.sink.requests": {"like": "jdbc-sql", "latency_ms": 5}},
            "stages[2].requests.style",
            "blocking: the program has Flink's AsyncSinkBase and AsyncWaitOperator alone; use",
        ),
        (
            {"stages.map.requests": {"style": "await", "latency_ms": 5, "cache": {"hit": 0.5}}},
            "stages[1].requests.cache",
            "calls for every record",
        ),
        (
            {
                "stages.map.requests": {"style": "await", "latency_ms": 5},
                "stages.map.selectivity": 2,
            },
            "stages[1].selectivity",
            "2: a call of the program has one record as result; leave it out",
        ),
        (
            {"stages.source.stalls": [{"at_s": 1, "for_s": 1}]},
            "stages[0].stalls",
            "state a schedule with rate: 0",
        ),
        ({"stages.source.record_bytes": 16}, "stages[0].record_bytes", "is 17 bytes at least"),
        (
            {
                "stages.source.record_bytes": 28,
                "edges.0.partitioner": "hash",
                "edges.0.channel_weights": [1],
            },
            "stages[0].record_bytes",
            "28: a byte array with its timestamp and 1 key is 29 bytes at least; state that",
        ),
        (
            {"edges.0.partition_type": "blocking", "cluster.disk_bytes_per_s": 1e6},
            "edges[0].partition_type",
            "use pipelined_bounded",
        ),
    ],
)
def test_a_refusal_names_the_place_and_what_to_do(
    changes: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        refusals.check(as_scenario(CONF / "three-stages.yaml", changes))
    [problem] = [one for one in refused.value.problems if one.place == place]
    assert words in problem.message


def test_of_several_jobs_none_checkpoints() -> None:
    given = {'options."execution.checkpointing.interval"': "5s"}
    with pytest.raises(ScenarioError, match="checkpoints, failures or event time of one job"):
        refusals.check(as_scenario(CONF / "two-jobs.yaml", given))


def test_everything_is_refused_at_once() -> None:
    with pytest.raises(ScenarioError) as refused:
        refusals.check(as_scenario(CONF / "kafka-transactions.yaml"))
    keys = ["requests", "requests", "transaction_timeout_s", "requests.style"]
    assert [one.place for one in refused.value.problems] == [f"stages[1].{key}" for key in keys]


@pytest.mark.parametrize("version", ["2.0.0", "2.3.0"])
def test_flink_2_does_not_take_how_many_buffers_there_are(version: str) -> None:
    """NettyShuffleEnvironmentConfiguration of 2.x reads none of these options."""
    given = as_scenario(JOBS / "experiment.yaml")
    refusals.check(given, "1.20.1")
    with pytest.raises(ScenarioError) as refused:
        refusals.check(given, version)
    memory = "taskmanager.network.memory."
    assert [(one.place, one.message) for one in refused.value.problems] == [
        (
            f'options."{memory}{key}"',
            f"{value}: Flink 2 has no such option, and goes on with {default}; "
            "use --flink 1.20, or state that",
        )
        for key, value, default in (
            ("buffers-per-channel", 16, 2),
            ("floating-buffers-per-gate", 10, 8),
            ("max-buffers-per-channel", 32, 10),
        )
    ]


def test_flink_2_runs_what_has_the_buffers_of_its_default() -> None:
    refusals.check(as_scenario(CONF / "checkpoint-aligned.yaml"), "2.3.0")
