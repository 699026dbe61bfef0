"""One syntax of sizes: options, records and systems of a scenario, and settings of a link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flowcontrol.errors import LinkError, ScenarioError
from flowcontrol.link.link import Link
from flowcontrol.scenario import parse_scenario

SEGMENT = "taskmanager.memory.segment-size"


def scenario(size: object) -> Any:
    return parse_scenario(
        {
            "schema": 1,
            "name": "sized",
            "duration_s": 1,
            "options": {SEGMENT: size},
            "system": {"transport": {"name": "tcp", "kernel_bytes": size}},
            "stages": [
                {"name": "source", "emit_rate": 10, "record_bytes": size},
                {"name": "sink", "service_rate": 5},
            ],
            "edges": [{"from": "source", "to": "sink"}],
        }
    )


@pytest.mark.parametrize("size", [65536, "65536", "64kb", "64 KB", "64 KiB", "64kib", "64 k"])
def test_every_size_is_read_alike(tmp_path: Path, size: object) -> None:
    found = scenario(size)
    assert found.options.segment_bytes == 65536
    assert found.stage("source").record_bytes == 65536
    assert found.system.transport_values["kernel_bytes"] == 65536
    link = Link(tmp_path, channels=1, buffer_bytes=size, schema=pa.schema([("id", pa.int64())]))
    assert link.settings.buffer_bytes == 65536


@pytest.mark.parametrize("size", ["64 kbit", "1.5mb", "much", "-1kb"])
def test_what_is_no_size_is_refused_everywhere(tmp_path: Path, size: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(size)
    places = ["system.transport.kernel_bytes", f'options."{SEGMENT}"', "stages[0].record_bytes"]
    assert {problem.place for problem in caught.value.problems} == set(places)
    for problem in caught.value.problems:
        assert repr(size) in problem.message
        assert "as 32kb, 4 MiB or 1g" in problem.message
    with pytest.raises(LinkError, match="as 32kb, 4 MiB or 1g"):
        Link(tmp_path, channels=1, buffer_bytes=size, schema=pa.schema([("id", pa.int64())]))


def test_a_size_beyond_a_limit_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"record_bytes: .*at most 2147483647"):
        scenario("3g")
