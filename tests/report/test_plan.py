"""The command ``flowcontrol plan``: its tables at 80 columns, its advice, its exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowcontrol.cli.main import main

CONF = Path(__file__).resolve().parents[2] / "conf"
BUFFERS = "taskmanager.network.numberOfBuffers"

SKEW = """\
network memory of skew: 2 task managers, 50 buffers of 4 KiB each
Rows count each subtask alone; a gate's figures hold its exclusive buffers.

TASK MANAGER 0         SUBTASKS  CHANNELS  REQUIRED   WANTED  GRANTED  EXCLUSIVE
out source->workers           0         4         5       40       40
total of 50                                       5       40       40          0

TASK MANAGER 1         SUBTASKS  CHANNELS  REQUIRED   WANTED  GRANTED  EXCLUSIVE
in  source->workers         0,2         1         9       16       12          8
in  source->workers         1,3         1         9       16       13          8
total of 50                                      36       64       50         32

exact need    36 buffers on a task manager to start,
              64 for every pool at its maximum
classic rule  slots^2 x task managers x 4 = 4^2 x 2 x 4 = 128
there are     50, enough to start, with smaller pools
to change     taskmanager.network.numberOfBuffers: 64
"""


def plan(capsys: pytest.CaptureFixture[str], name: str, *changes: str) -> tuple[int, str, str]:
    given = [part for change in changes for part in ("--set", change)]
    status = main(["plan", str(CONF / f"{name}.yaml"), *given])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_the_whole_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(capsys, "skew", f'options."{BUFFERS}"=50') == (0, SKEW, "")


WIDE = """\
network memory of skew: 240 task managers, 5,000 buffers of 4 KiB each
Rows count each subtask alone; a gate's figures hold its exclusive buffers.

TASK MANAGER 0         SUBTASKS  CHANNELS  REQUIRED   WANTED  GRANTED  EXCLUSIVE
out source->workers           0       480       481    3,848    3,848
in  source->workers         0,1         1         1        8        8          0
total of 5,000                                  483    3,864    3,864          0

TASK MANAGERS 1-239    SUBTASKS  CHANNELS  REQUIRED   WANTED  GRANTED  EXCLUSIVE
in  source->workers      2 each         1         9       16       16          8
total of 5,000                                   18       32       32         16
"""


def placed(workers: list[int]) -> list[str]:
    """Return what puts a worker on each of these task managers."""
    return [
        f"stages.workers.parallelism={len(workers)}",
        f"stages.workers.placement={workers}",
        "stages.workers.service_rate=400",
    ]


def test_task_managers_that_are_alike_share_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["cluster.task_managers=240", f'options."{BUFFERS}"=5000']
    _, out, _ = plan(capsys, "skew", *changes, *placed([at // 2 for at in range(480)]))
    assert out.partition("\nexact need")[0] == WIDE


def test_they_need_not_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    heads = []
    for workers in ([1, 3, 2, 1, 3, 2], [1, 1, 2, 3, 3], [1, 2, 2, 3, 3, 3]):
        _, out, _ = plan(capsys, "skew", "cluster.task_managers=4", *placed(workers))
        rows = [line for line in out.splitlines() if line.startswith("TASK")]
        heads.append([row.partition("SUBTASKS")[0].rstrip() for row in rows])
    assert heads == [
        ["TASK MANAGER 0", "TASK MANAGERS 1-3"],
        ["TASK MANAGER 0", "TASK MANAGERS 1, 3", "TASK MANAGER 2"],
        ["TASK MANAGER 0", "TASK MANAGER 1", "TASK MANAGER 2", "TASK MANAGER 3"],
    ]


@pytest.mark.parametrize(
    ("buffers", "status", "verdict", "first"),
    [
        (35, 2, "35, too few: not everything starts", "to change"),
        (36, 0, "36, enough to start, with smaller pools", "to change"),
        (63, 0, "63, enough to start, with smaller pools", "to change"),
        (64, 0, "64, enough for every pool at its maximum", "would do"),
    ],
)
def test_the_verdict_at_its_limits(
    capsys: pytest.CaptureFixture[str], buffers: int, status: int, verdict: str, first: str
) -> None:
    found, out, err = plan(capsys, "skew", f'options."{BUFFERS}"={buffers}')
    assert found == status
    assert f"there are     {verdict}\n" in out
    assert f"{first.ljust(14)}{BUFFERS}: 64\n" in out
    assert (f"at the least  {BUFFERS}: 36\n" in out) == (status == 2)
    assert bool(err) == (status == 2)


def test_what_does_not_fit_is_planned_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = plan(capsys, "skew", f'options."{BUFFERS}"=30')
    assert status == 2
    assert "  6 of the 36 required are missing\n" in out
    assert "in  source->workers     0,1,2,3         1         9       16     none          8" in out
    assert err.startswith(
        "flowcontrol: workers subtask 3, task manager 1: Insufficient number of network buffers: "
        "required 8, but only 2 available. The total number of network buffers is currently set "
        "to 30 of 4096 bytes each."
    )


@pytest.mark.parametrize("name", [path.stem for path in CONF.glob("*.yaml")])
def test_every_scenario_fits_on_80_columns(capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, out, err = plan(capsys, name)
    if "has queues of records and no network buffers" in err:
        assert (status, out) == (2, "")
        return
    assert max(map(len, out.splitlines())) <= 80


def test_the_option_is_the_one_that_the_scenario_states(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = plan(capsys, "skew")
    assert "would do      taskmanager.memory.network.min: 256kb" in out


def test_it_says_what_the_hottest_subtask_gets(capsys: pytest.CaptureFixture[str]) -> None:
    keys = "edges.0.key_distribution={kind: hot, keys: 1000, share: 0.3}"
    status, out, _ = plan(capsys, "skew", "edges.0.partitioner=hash", keys)
    assert status == 0
    assert out.endswith(
        "hottest       source->workers\n"
        "              subtask 1 gets 48 % of the records, 1.93 x an even share\n"
        "              of 1,000 keys, hot 0.3\n"
    )
    weights = "edges.0.channel_weights=[1, 5, 1, 1]"
    _, out, _ = plan(capsys, "skew", "edges.0.partitioner=custom", weights)
    assert "subtask 1 gets 62 % of the records, 2.50 x an even share\n" in out
    even = "edges.0.channel_weights=[1, 1, 1, 1]"
    _, out, _ = plan(capsys, "skew", "edges.0.partitioner=custom", even)
    assert "hottest" not in out


def test_a_scenario_that_is_refused_has_no_plan(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = plan(capsys, "skew", "duration_s=-1")
    assert (status, out) == (2, "")
    assert "duration_s" in err


@pytest.mark.parametrize("system", ["storm-1", "pulsar", "hazelcast-jet"])
def test_a_system_without_network_buffers_has_nothing_to_plan(
    capsys: pytest.CaptureFixture[str], system: str
) -> None:
    status, out, err = plan(capsys, "experiment", f"system={system}")
    assert (status, out) == (2, "")
    for text in ("system.transport", "no network buffers", "--set system=flink"):
        assert text in err
    assert plan(capsys, "experiment", "system=flink-1.4")[0] == 0
