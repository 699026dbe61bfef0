"""Names of Flink's Prometheus reporter (reference 7.3), and text that promtool reads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flowcontrol.metrics import openmetrics, prometheus_name
from flowcontrol.metrics.scopes import plain
from flowcontrol.records import METRICS

TASK = "host_0.taskmanager.tm_0.job.Source__a.1"
LABELS = {
    "host": "host_0",
    "tm_id": "tm_0",
    "job_name": "job",
    "task_name": "Source__a",
    "subtask_index": "1",
}


@pytest.mark.parametrize(
    ("scope", "name", "expected", "labels"),
    [
        (TASK, "numRecordsIn", "flink_taskmanager_job_task_numRecordsIn", LABELS),
        (
            TASK,
            "Shuffle.Netty.Input.Buffers.inPoolUsage",
            "flink_taskmanager_job_task_Shuffle_Netty_Input_Buffers_inPoolUsage",
            LABELS,
        ),
        (
            TASK,
            "Source__a.pendingRecords",
            "flink_taskmanager_job_task_operator_pendingRecords",
            LABELS | {"operator_name": "Source__a"},
        ),
        (
            "host_jobmanager.jobmanager.job",
            "lastCheckpointDuration",
            "flink_jobmanager_job_lastCheckpointDuration",
            {"host": "host_jobmanager", "job_name": "job"},
        ),
        (
            "host_1.taskmanager.tm_1",
            "Status.JVM.CPU.Load",
            "flink_taskmanager_Status_JVM_CPU_Load",
            {"host": "host_1", "tm_id": "tm_1"},
        ),
    ],
)
def test_names_and_labels(scope: str, name: str, expected: str, labels: dict[str, str]) -> None:
    assert prometheus_name(scope, name) == (expected, labels)


@pytest.mark.parametrize("scope", ["a.b", "h.taskmanager.t.job", "h.jobmanager.j.x", "h.other.t"])
def test_another_scope_is_refused(scope: str) -> None:
    with pytest.raises(ValueError, match="not a scope of the table metrics"):
        prometheus_name(scope, "numRecordsIn")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Source: X", "Source__X"), ("a -> b", "a____b"), ("word-count.2", "word_count_2")],
)
def test_other_characters_become_underscores(name: str, expected: str) -> None:
    assert plain(name) == expected


def test_a_text_has_each_family_in_one_piece() -> None:
    rows = [
        {"t_s": t_s, "scope": f"host_0.taskmanager.tm_0.j.a.{index}", "name": name, "value": value}
        for t_s, value in ((5.0, 1.0), (10.0, 0.5))
        for index in (0, 1)
        for name in ("x", "y")
    ]
    lines = list(openmetrics(pa.Table.from_pylist(rows, schema=METRICS.arrow_schema()), 100.0))
    head = 'flink_taskmanager_job_task_x{host="host_0",tm_id="tm_0",job_name="j",task_name="a",'
    assert lines[:5] == [
        "# TYPE flink_taskmanager_job_task_x gauge\n",
        head + 'subtask_index="0"} 1.0 105.000\n',
        head + 'subtask_index="1"} 1.0 105.000\n',
        head + 'subtask_index="0"} 0.5 110.000\n',
        head + 'subtask_index="1"} 0.5 110.000\n',
    ]
    assert lines[5] == "# TYPE flink_taskmanager_job_task_y gauge\n"
    assert (len(lines), lines[-1]) == (11, "# EOF\n")
