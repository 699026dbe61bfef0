"""A gate polls its channels in turn, those of its own task manager too (LocalInputChannel)."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate


def emitted(near_manager: int, **options: Any) -> dict[str, float]:
    """Records/s of two equal sources at a sink that is too slow, once buffers are full."""
    stated = {
        "schema": 1,
        "name": "turns",
        "duration_s": 30,
        "cluster": {"task_managers": 2},
        "options": {"taskmanager.memory.segment-size": "4kb", **options},
        "stages": [
            {"name": "far", "emit_rate": 700, "record_bytes": 120, "placement": [0]},
            {"name": "near", "emit_rate": 700, "record_bytes": 120, "placement": [near_manager]},
            {"name": "sink", "service_rate": 1000, "placement": [1]},
        ],
        "edges": [{"from": "far", "to": "sink"}, {"from": "near", "to": "sink"}],
    }
    stages = simulate(parse_scenario(stated)).tables["stages"].to_pandas()
    sent = stages.pivot(index="t_s", columns="stage", values="records_out")
    return {str(name): float(sent[name].loc[30.0] - sent[name].loc[10.0]) / 20 for name in sent}


@pytest.mark.parametrize("timeout", ["20ms", "100ms"])
@pytest.mark.holds("credit", "virtual", "that local and remote channels of a Flink share a sink")
def test_a_local_channel_gets_as_much_of_a_sink_as_a_remote_one(timeout: str) -> None:
    """Flink 1.20.1: 500 and 500 records/s (``bench/real_flink/dumps/near-and-far.json.gz``).

    A flush finds the open buffer of a local channel; were it handed on before its turn, the
    channel would give half-filled buffers away for its turns, and get 386 of 1,000 records.
    """
    found = emitted(1, **{"execution.buffer-timeout.interval": timeout})
    assert found["near"] == pytest.approx(500, rel=0.02)
    assert found["far"] == pytest.approx(500, rel=0.02)


def test_two_remote_channels_share_it_as_well() -> None:
    assert emitted(0)["near"] == pytest.approx(500, rel=0.02)
