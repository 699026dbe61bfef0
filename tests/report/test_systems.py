"""The systems as the command lists them, and the tables behind it."""

from __future__ import annotations

import pytest

from flowcontrol.cli.main import main
from flowcontrol.scenario.system import (
    ALIASES,
    PRESETS,
    SYSTEMS,
    THROTTLE_PARTS,
    TRANSPORT_PARTS,
    preset_system,
)


def test_every_name_that_a_scenario_may_use_has_its_parameters():
    assert len(PRESETS) == 20
    for name in SYSTEMS:
        preset, system = PRESETS[ALIASES.get(name, name)], preset_system(name)
        assert (system.transport, system.throttle) == (preset.transport, preset.throttle)
        assert set(system.transport_values) == set(TRANSPORT_PARTS[preset.transport].parameters)
        assert set(system.throttle_values) == set(THROTTLE_PARTS[preset.throttle].parameters)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_sets_only_what_its_parts_have_and_within_bounds(name):
    preset = PRESETS[name]
    for part, values in (
        (TRANSPORT_PARTS[preset.transport], preset.transport_values),
        (THROTTLE_PARTS[preset.throttle], preset.throttle_values),
    ):
        assert set(values) <= set(part.parameters)
        for key, parameter in part.parameters.items():
            value = values.get(key, parameter.default)
            assert parameter.least <= value <= parameter.most, key


def test_the_list(capsys):
    assert main(["systems"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:21]] == list(PRESETS)
    assert max(map(len, lines[:21])) <= 100
    parts = "\n".join(lines[21:]).strip().split("\n\n")
    assert [part.split(":")[0] for part in parts] == list(PRESETS)
    for part, preset in zip(parts, PRESETS.values(), strict=True):
        assert f"transport {preset.transport}" in part
        assert all(key in part for key in TRANSPORT_PARTS[preset.transport].parameters)
        assert all(key in part for key in THROTTLE_PARTS[preset.throttle].parameters)
        assert preset.source in part


def test_a_system_with_its_parameters(capsys):
    assert main(["systems", "storm", "pulsar"]) == 0
    out = capsys.readouterr().out
    assert "storm-1: Storm 1.1.3" in out
    assert "high = 0.90  backpressure.disruptor.high.watermark: at it a queue claims" in out
    assert "slots = 1,000 records  receiverQueueSize" in out
    assert "https://github.com/apache/storm/tree/v1.1.3" in out


OWN_WORDS = {
    "maxOffsetsPerTrigger": "structured-streaming",
    "maxTriggerDelay": "structured-streaming",
    "max.poll.records": "kafka-streams",
    "receiverQueueSize": "pulsar",
    "receiveWindowMultiplier": "hazelcast-jet",
    "exchange_initial_permits": "risingwave",
    "max-input-buffer-size": "reactive-streams",
    "pid.minRate": "spark-streaming",
    "maxRatePerPartition": "spark-streaming",
    "znode": "storm-1",
    "ZooKeeper": "storm-1",
    "highwatermark.mb": "heron",
}


@pytest.mark.parametrize(("word", "owner"), OWN_WORDS.items())
def test_a_system_is_explained_in_its_own_words(word, owner, capsys):
    for name in PRESETS:
        assert main(["systems", name]) == 0
        assert (word in capsys.readouterr().out) == (name == owner), name


@pytest.mark.parametrize("name", PRESETS)
def test_every_parameter_of_a_system_has_its_words(name):
    preset = PRESETS[name]
    transport = TRANSPORT_PARTS[preset.transport].parameters
    throttle = THROTTLE_PARTS[preset.throttle].parameters
    assert not set(transport) & set(throttle)
    assert set(PRESETS[name].words) == {*transport, *throttle}


def test_kafka_streams_has_no_tick(capsys):
    assert preset_system("kafka-streams").throttle_values["interval_ms"] == 0
    assert main(["systems", "kafka-streams"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert any("poll.ms" in line for line in lines)


def test_herons_marks_are_bytes(capsys):
    assert main(["systems", "heron"]) == 0
    lines = [line.strip().split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert {"high_bytes = 104,857,600 bytes", "low_bytes = 52,428,800 bytes"} <= set(lines)
    assert {"consecutive = 4 times", "check_ms = 0 ms", "timeout_ms = 0 ms"} <= set(lines)


def test_a_name_that_is_none(capsys):
    assert main(["systems", "strom-1"]) == 2
    assert "storm-1" in capsys.readouterr().err
