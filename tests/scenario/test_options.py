from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import Problem
from flowcontrol.scenario.option_table import ALIASES, OPTIONS
from flowcontrol.scenario.options import NEVER, NetworkOptions, read_options

MIB = 1024**2
FLINK = "taskmanager.memory.flink.size"
PROCESS = "taskmanager.memory.process.size"
NET = "taskmanager.memory.network."
SEGMENT = "taskmanager.memory.segment-size"
NETMEM = "taskmanager.network.memory."
HEAP = "taskmanager.memory.task.heap.size"
DEBLOAT = "taskmanager.network.memory.buffer-debloat."
SMALLEST = "taskmanager.memory.min-segment-size"
TIMEOUT = "execution.buffer-timeout.interval"
ENABLED = "execution.buffer-timeout.enabled"


def read(raw: dict[Any, Any]) -> NetworkOptions:
    problems: list[Problem] = []
    options = read_options(raw, problems)
    assert problems == []
    assert options is not None
    return options


def test_nothing_stated_is_flinks_defaults() -> None:
    assert read({}) == NetworkOptions()
    assert NetworkOptions() == NetworkOptions(
        segment_bytes=32 * 1024,
        exclusive_buffers=2,
        floating_buffers=8,
        max_buffers_per_channel=10,
        max_overdraft_buffers=5,
        read_buffer_threshold=None,
        flush_interval_us=100_000,
        network_buffers=2048,
        buffers_request_timeout_us=30_000_000,
        debloat_enabled=False,
        debloat_period_us=200_000,
        debloat_target_us=1_000_000,
        debloat_samples=20,
        debloat_threshold_percent=25,
        min_segment_bytes=256,
        unemulated=(),
    )


@pytest.mark.parametrize(
    ("raw", "field", "value"),
    [
        ({SEGMENT: "4kb"}, "segment_bytes", 4096),
        ({SEGMENT: 1073741824, f"{NET}min": "1gb"}, "segment_bytes", 2**30),
        ({f"{NETMEM}buffers-per-channel": 0}, "exclusive_buffers", 0),
        ({f"{NETMEM}buffers-per-channel": "3"}, "exclusive_buffers", 3),
        ({f"{NETMEM}floating-buffers-per-gate": 1}, "floating_buffers", 1),
        ({f"{NETMEM}max-buffers-per-channel": 1}, "max_buffers_per_channel", 1),
        ({f"{NETMEM}max-overdraft-buffers-per-gate": 0}, "max_overdraft_buffers", 0),
        ({f"{NETMEM}read-buffer.required-per-gate.max": 1}, "read_buffer_threshold", 1),
        ({TIMEOUT: "100ms"}, "flush_interval_us", 100_000),
        ({TIMEOUT: 0}, "flush_interval_us", 0),
        ({TIMEOUT: "0 ms"}, "flush_interval_us", 0),
        ({TIMEOUT: -1}, "flush_interval_us", NEVER),
        ({TIMEOUT: "1 s", ENABLED: False}, "flush_interval_us", NEVER),
        ({TIMEOUT: "1 s", ENABLED: "true"}, "flush_interval_us", 1_000_000),
        ({"execution.buffer-timeout": "5"}, "flush_interval_us", 5_000),
        ({f"{NETMEM}buffers-request-timeout": "1 s"}, "buffers_request_timeout_us", 1_000_000),
        ({f"{NETMEM}buffers-request-timeout": 0}, "buffers_request_timeout_us", 0),
        ({f"{DEBLOAT}enabled": "true"}, "debloat_enabled", True),
        ({f"{DEBLOAT}enabled": False}, "debloat_enabled", False),
        ({f"{DEBLOAT}period": "1ms"}, "debloat_period_us", 1_000),
        ({f"{DEBLOAT}period": 500}, "debloat_period_us", 500_000),
        ({f"{DEBLOAT}target": "1"}, "debloat_target_us", 1_000),
        ({f"{DEBLOAT}target": "2 s"}, "debloat_target_us", 2_000_000),
        ({f"{DEBLOAT}samples": 1}, "debloat_samples", 1),
        ({f"{DEBLOAT}threshold-percentages": 0}, "debloat_threshold_percent", 0),
        ({f"{DEBLOAT}threshold-percentages": "100"}, "debloat_threshold_percent", 100),
        ({SMALLEST: 1}, "min_segment_bytes", 1),
        ({SMALLEST: "32kb"}, "min_segment_bytes", 32_768),
        ({SMALLEST: "4kb", SEGMENT: "4kb"}, "min_segment_bytes", 4_096),
    ],
)
def test_options(raw: dict[str, Any], field: str, value: int) -> None:
    assert getattr(read(raw), field) == value


@pytest.mark.parametrize(
    ("raw", "buffers"),
    [
        ({}, 2048),
        ({SEGMENT: "64kb"}, 1024),
        ({f"{NET}min": "1mb"}, 32),
        ({f"{NET}min": "65535"}, 1),
        ({f"{NETMEM}min": "1mb"}, 32),
        ({f"{NET}max": "64mb"}, 2048),
        # 10 % of 1 GiB is 107,374,182.4 bytes: floor, then 3276.8 buffers: floor again.
        ({FLINK: "1g"}, 3276),
        ({FLINK: "1g", f"{NET}fraction": 0.25}, 8192),
        ({FLINK: "1g", f"{NET}fraction": "0.25"}, 8192),
        ({FLINK: "1g", f"{NET}fraction": 0}, 2048),
        ({FLINK: "64mb"}, 2048),
        ({FLINK: "10g", f"{NET}max": "128mb"}, 4096),
        ({FLINK: "512mb"}, 2048),
        # 1,728 MiB less 256 of metaspace and 192 (at least) of overhead: 1,280 MiB, 10 % of them.
        ({PROCESS: "1728m"}, 128 * 32),
        # 10 % of 20,480 MiB would be 2,048 of overhead: at most 1,024. (20,480-256-1,024)/10.
        ({PROCESS: "20g"}, 1920 * 32),
        ({PROCESS: "1728m", FLINK: "1g"}, 3276),
        ({PROCESS: "1728m", "taskmanager.memory.jvm-metaspace.size": "0"}, 4915),
        ({"taskmanager.network.numberOfBuffers": 2048}, 2048),
        ({"taskmanager.network.numberOfBuffers": 7, SEGMENT: "64kb"}, 7),
        ({"taskmanager.network.numberOfBuffers": 2048, FLINK: "64mb"}, 2048),
        ({"taskmanager.network.numberOfBuffers": 2047, FLINK: 2047 * 32768}, 2047),
    ],
)
def test_buffers_of_a_task_manager(raw: dict[str, Any], buffers: int) -> None:
    assert read(raw).network_buffers == buffers


@given(
    flink=st.integers(64, 2**16), low=st.integers(1, 64), high=st.integers(64, 2**16),
    percent=st.integers(0, 99),
)  # fmt: skip
def test_network_memory_is_a_share_within_limits(
    flink: int, low: int, high: int, percent: int
) -> None:
    options = read(
        {
            FLINK: f"{flink}mb",
            f"{NET}min": f"{low}mb",
            f"{NET}max": f"{high}mb",
            f"{NET}fraction": percent / 100,
        }
    )
    memory = min(max(flink * MIB * percent // 100, low * MIB), high * MIB)
    assert options.network_buffers == memory // (32 * 1024)


@pytest.mark.parametrize(
    ("raw", "unemulated"),
    [
        ({f"{DEBLOAT}enabled": True}, ()),
        ({"taskmanager.network.max-num-tcp-connections": 1}, ()),
        (
            {"taskmanager.network.max-num-tcp-connections": 2},
            (("taskmanager.network.max-num-tcp-connections", 2),),
        ),
        (
            {"execution.checkpointing.interval-during-backlog": "10 s"},
            (("execution.checkpointing.interval-during-backlog", "10000ms"),),
        ),
        ({"execution.checkpointing.interval": "10 s"}, ()),
        ({"execution.checkpointing.unaligned": True}, ()),
        ({"taskmanager.network.detailed-metrics": True}, ()),
        ({HEAP: "1g"}, ((HEAP, 2**30),)),
    ],
)  # fmt: skip
def test_what_is_not_emulated_is_kept(raw: dict[str, Any], unemulated: tuple[Any, ...]) -> None:
    assert read(raw).unemulated == unemulated


def test_debloating_is_written_down_where_it_is_not_flinks_default() -> None:
    assert not any("debloat" in key or key == SMALLEST for key in read({}).canonical())
    stated = {
        f"{DEBLOAT}enabled": True,
        f"{DEBLOAT}period": "100ms",
        f"{DEBLOAT}target": "500ms",
        f"{DEBLOAT}samples": 1,
        f"{DEBLOAT}threshold-percentages": 0,
        SMALLEST: 512,
    }
    assert read(stated).canonical() == {**read({}).canonical(), **stated}


VALUES: dict[str, Any] = {
    SEGMENT: ["32kb", 32768, "64 kb"],
    f"{NETMEM}buffers-per-channel": [0, 2, 5],
    f"{NETMEM}read-buffer.required-per-gate.max": [1, 1000],
    TIMEOUT: [-1, 0, "100ms", 100, "1 s"],
    ENABLED: [True, False],
    f"{NET}min": ["64mb", "1gb"],
    FLINK: ["2g", "2048m"],
    f"{DEBLOAT}enabled": [True, False],
    f"{DEBLOAT}period": ["200ms", "1 s"],
    f"{DEBLOAT}samples": [1, 20],
    SMALLEST: [256, "1kb"],
    f"{NETMEM}buffers-request-timeout": ["30 s", 500],
    "execution.checkpointing.interval": ["1 min", 60_000],
    "taskmanager.memory.managed.fraction": [0.5],
}
STATED = st.fixed_dictionaries(
    {}, optional={key: st.sampled_from(values) for key, values in VALUES.items()}
)


@given(STATED)
def test_canonical_options_mean_the_same(raw: dict[str, Any]) -> None:
    options = read(raw)
    assert read(options.canonical()) == options


@given(STATED, STATED)
def test_canonical_options_are_equal_when_options_are(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    first, second = read(one), read(other)
    assert (first == second) == (first.canonical() == second.canonical())


@pytest.mark.parametrize("key", sorted(OPTIONS))
def test_every_default_is_a_value_of_its_option(key: str) -> None:
    option = OPTIONS[key]
    assert option.meaning
    if isinstance(option.default, int) and "_duration" in str(option.read):
        assert option.read(f"{option.default // 1000}ms") == option.default
    elif option.default is not None:
        assert option.read(option.default) == option.default


def test_every_old_name_has_a_new_one() -> None:
    assert set(ALIASES.values()) <= set(OPTIONS)
    assert not set(ALIASES) & set(OPTIONS)
