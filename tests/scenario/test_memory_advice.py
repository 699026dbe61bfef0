from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.scenario.options import memory_options, read_options

MIN, MAX = "taskmanager.memory.network.min", "taskmanager.memory.network.max"
LEGACY = "taskmanager.network.numberOfBuffers"
FLINK, PROCESS = "taskmanager.memory.flink.size", "taskmanager.memory.process.size"
FRACTION = "taskmanager.memory.network.fraction"


@pytest.mark.parametrize(
    ("stated", "options"),
    [
        ({}, {MIN: "96000kb"}),
        ({LEGACY: 10}, {LEGACY: 3000}),
        ({MAX: "128mb"}, {MIN: "96000kb"}),
        ({MAX: "80mb"}, {MIN: "96000kb", MAX: "96000kb"}),
        ({"taskmanager.network.memory.max": "80mb"}, {MIN: "96000kb", MAX: "96000kb"}),
        ({FLINK: "1g", FRACTION: 0.01}, {MIN: "96000kb"}),
        ({FLINK: "80m"}, {MIN: "96000kb", FLINK: "96000kb"}),
        # 256 MiB of metaspace and 192 of overhead come on top: 7 steps of 64 MiB.
        ({PROCESS: "540m"}, {MIN: "96000kb", PROCESS: f"{96000 + 7 * 65536}kb"}),
        ({PROCESS: "542m"}, {MIN: "96000kb"}),
    ],
)
def test_the_option_to_change(stated: dict[str, Any], options: dict[str, Any]) -> None:
    assert memory_options(stated, 3000, 32768) == options


@pytest.mark.parametrize(
    "stated", [{}, {LEGACY: 10}, {MAX: "80mb"}, {FLINK: "80m"}, {PROCESS: "540m"}]
)
def test_stated_so_there_are_that_many_buffers(stated: dict[str, Any]) -> None:
    problems: list[Any] = []
    options = read_options({**stated, **memory_options(stated, 3000, 32768)}, problems)
    assert problems == []
    assert options is not None
    assert options.network_buffers == 3000
