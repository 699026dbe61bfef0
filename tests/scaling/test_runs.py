"""Runs whose parallelism changes: no record is lost or comes from nowhere, whatever happens."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.errors import RunError
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scaling.runs import scaled
from flowcontrol.scaling.runs.controllers import Decision
from flowcontrol.scaling.runs.derive import arrivals, derive
from flowcontrol.scaling.runs.scaled import run_epochs, run_scaled, scalings_table
from flowcontrol.scenario import parse_scenario

PAUSE_S = 2.0


@dataclass
class Scripted:
    """A controller that does what it is told, at the first sample from a moment on."""

    script: list[tuple[float, dict[str, int]]]
    widths: dict[str, int] = field(default_factory=dict)
    looks: list[float] = field(default_factory=list)

    def start(self, running_s, widths):
        self.widths = dict(widths)

    def is_due(self, t_s):
        return bool(self.script) and t_s >= self.script[0][0]

    def look(self, t_s, measured):
        self.looks.append(t_s)
        _, changes = self.script.pop(0)
        changes = {name: new for name, new in changes.items() if new != self.widths[name]}
        return Decision(changes, dict.fromkeys(changes, "told so")) if changes else None


def scenario(*, checkpoints=True, sources=2, rate=200, partitions=None, **more):
    scaling: dict[str, Any] = {"policy": "flink-autoscaler", "restart_s": PAUSE_S}
    if partitions:
        scaling["partitions"] = {"source": partitions}
    return parse_scenario(
        {
            "schema": 1,
            "name": "scaled",
            "duration_s": 24,
            "round_ms": 10,
            "sample_interval_s": 1,
            "cluster": {"task_managers": 2},
            "options": {
                "taskmanager.memory.segment-size": "4kb",
                **({"execution.checkpointing.interval": "3 s"} if checkpoints else {}),
            },
            "scaling": scaling,
            "stages": [
                {
                    "name": "source",
                    "parallelism": sources,
                    "emit_rate": 1000,
                    "total_arrival_rate": rate,
                    "latency_from": "arrival",
                    "record_bytes": 200,
                },
                {"name": "map", "parallelism": 2, "service_rate": 150},
                {"name": "sink", "service_rate": 2000},
            ],
            "edges": [
                {"from": "source", "to": "map", "partitioner": "rebalance"},
                {
                    "from": "map",
                    "to": "sink",
                    "partitioner": "hash",
                    "key_distribution": {"kind": "zipf", "keys": 50},
                },
            ],
            **more,
        }
    )


def run(one, script, monkeypatch):
    """Return the job, its epochs, and the run."""
    monkeypatch.setattr(scaled, "controller_for", lambda *_: Scripted([*script]))
    job = build_physical_graph(one, round_us=10_000)
    epochs = run_epochs(job, lambda rounds, records: None, track=True)
    monkeypatch.setattr(scaled, "run_epochs", lambda *_, **__: epochs)
    return epochs, run_scaled(job)


def totals(frame, stage, column):
    """Return what all subtasks that a stage ever had have counted."""
    rows = frame[frame["stage"] == stage]
    return int(rows.groupby("subtask")[column].last().sum())


SCRIPTS = st.lists(
    st.tuples(
        st.integers(1, 22),
        st.fixed_dictionaries(
            {},
            optional={
                "source": st.integers(1, 4),
                "map": st.integers(1, 5),
                "sink": st.integers(1, 3),
            },
        ),
    ),
    min_size=1,
    max_size=4,
)

TWICE = st.builds(
    lambda first, second, widths: [(first, {"map": widths[0]}), (second, {"map": widths[1]})],
    st.integers(1, 10),
    st.integers(15, 20),
    st.permutations([1, 3, 4, 5]),
)
"""Two changes of what is 2 at first, the second one when the first restart is long over."""


def test_no_record_is_lost_or_comes_from_nowhere():
    met = set()

    def look(checkpoints, sources, rate, partitions, script):
        one = scenario(checkpoints=checkpoints, sources=sources, rate=rate, partitions=partitions)
        with pytest.MonkeyPatch.context() as patch:
            epochs, found = run(one, sorted(script, key=lambda step: step[0]), patch)
        frame = found.tables["stages"].to_pandas()
        stage = one.stage("source")
        last = epochs.parts[-1][1]
        read = [Fraction(n) for n in last.read["source"]]
        had = [a + b for a, b in zip(epochs.offsets[-1]["source"], read, strict=True)]
        width = len(had)
        # whole records all the same, however the log was divided meanwhile
        assert sum(had).denominator == 1
        # what was written is what the job has had, and what waits; of each subtask a part of a
        # record may be on its way
        lag = frame[(frame["stage"] == "source") & (frame["t_s"] == 24)]["lag_records"].tolist()
        assert len(lag) == width
        for schedule, own, waits in zip(arrivals(stage, width, partitions), had, lag, strict=True):
            written = schedule.integral(24_000_000)
            assert own <= written or own - written < 1
            assert 0 <= written - own - waits < 2
        # what the sources put out is what the job has had, and what it read again
        put_out = totals(frame, "source", "records_out")
        assert put_out == sum(had) + epochs.replayed
        # and all of it came to the sink, but for what is on its way or went down on it
        channels = found.tables["channels"].to_pandas()
        flying = int(channels[channels["t_s"] == 24]["in_flight_records"].sum())
        taken = totals(frame, "sink", "records_in")
        inside = put_out - taken - flying - epochs.lost_in_flight
        # each subtask of map may hold one record in its hands
        hands = sum(ended.job.scenario.stage("map").parallelism for _, ended in epochs.parts)
        assert 0 <= inside <= hands
        if not checkpoints:
            assert (epochs.replayed, epochs.lost_in_flight) == (0, 0)
        # one row a sample and subtask, and times without gaps
        assert not frame.duplicated(["t_s", "stage", "subtask"]).any()
        assert sorted(set(frame["t_s"])) == [float(t) for t in range(1, 25)]
        met.add((checkpoints, partitions is not None, min(3, len(epochs.parts))))
        met.add(("again", epochs.replayed > 0))

    few = max(3, settings.default.max_examples // 6)
    either = st.booleans(), st.sampled_from([None, 4, 5]), SCRIPTS
    with_points = st.just(True), st.none(), TWICE
    without = st.just(False), st.none(), TWICE
    for checkpoints, partitions, scripts in (either, with_points, without):
        drawn = given(
            checkpoints=checkpoints,
            sources=st.integers(1, 3),
            rate=st.integers(20, 500),
            partitions=partitions,
            script=scripts,
        )
        settings(max_examples=few)(drawn(look))()
    assert {(True, False, 3), (False, False, 3), ("again", True)} <= met


def test_the_restart_costs_its_time_and_goes_back_to_the_checkpoint(monkeypatch):
    one = scenario(rate=200)
    epochs, found = run(one, [(8, {"map": 4})], monkeypatch)
    table = found.tables["scalings"].to_pylist()
    assert table == [
        {"t_s": 8.0, "stage": "map", "old": 2, "new": 4, "reason": "told so", "restart_s": 2.0}
    ]
    # the checkpoint of 6 s: what came in 2 s is read again, but for what was in flight
    assert epochs.replayed == pytest.approx(400, abs=10)
    frame = found.tables["stages"].to_pandas()
    rows = frame[frame["stage"] == "map"]
    assert rows.groupby("t_s")["subtask"].count().to_dict() == {
        float(t): 2 if t <= 8 else 4 for t in range(1, 25)
    }
    # it stands for two samples: nobody does anything, and the log grows by 200 a second
    down = frame[frame["t_s"].isin([9.0, 10.0])]
    assert not down[["busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s"]].any().any()
    lag = frame[frame["stage"] == "source"].groupby("t_s")["lag_records"].sum()
    assert lag[10] == pytest.approx(400 + epochs.replayed, abs=3)
    # a record that waited is as old as it is: those of the checkpoint, and then less and less
    latency = found.tables["latency"].to_pandas().set_index("t_s")
    assert latency.loc[11, "max_ms"] == pytest.approx(4000 + 1000 * 0.3, abs=500)
    assert latency.loc[20, "max_ms"] < 500
    # checkpoints go on under new numbers, from the new start
    points = found.tables["checkpoints"].to_pandas()
    assert points["checkpoint_id"].tolist() == list(range(1, len(points) + 1))
    assert points["triggered_s"].tolist()[:4] == [3.0, 6.0, 13.0, 16.0]


def test_with_a_savepoint_nothing_is_read_again(monkeypatch):
    epochs, found = run(scenario(checkpoints=False, rate=350), [(8, {"map": 4})], monkeypatch)
    (row,) = found.tables["scalings"].to_pylist()
    assert row["restart_s"] > PAUSE_S  # the barrier waited behind what was in flight
    frame = found.tables["stages"].to_pandas()
    put_out, taken = (totals(frame, *one) for one in
                      (("source", "records_out"), ("sink", "records_in")))  # fmt: skip
    assert epochs.replayed == epochs.lost_in_flight == 0
    assert put_out - taken < 100
    assert set(found.tables) == {"stages", "channels", "latency", "scalings"}


def test_counters_of_subtasks_go_on_and_those_of_channels_never_fall(monkeypatch):
    script = [(6, {"map": 5, "source": 1}), (14, {"map": 1, "source": 3})]
    _, found = run(scenario(rate=250), script, monkeypatch)
    for name, owner, columns in (
        ("stages", ["stage", "subtask"], ["records_in", "records_out"]),
        (
            "channels",
            ["edge", "sender", "receiver"],
            ["written", "released", "announced", "sent", "consumed"],
        ),
    ):
        frame = found.tables[name].to_pandas()
        growth = frame.groupby(owner)[columns].diff()
        assert not (growth < 0).any().any(), name
    # what is on its way is what was released and not consumed, after a restart too
    channels = found.tables["channels"].to_pandas()
    assert (channels["released"] >= channels["consumed"]).all()
    last = channels[channels["t_s"] == 24]
    assert (last["released"] - last["consumed"]).max() < 20


def test_partitions_are_read_in_turn(monkeypatch):
    # 5 partitions on 3 subtasks: 2, 2 and 1
    epochs, _ = run(scenario(rate=250, partitions=5), [(8, {"source": 3})], monkeypatch)
    after = epochs.parts[-1][1].job.scenario.stage("source")
    assert [schedule.phases[-1].rate for schedule in after.arrival_rate] == [100, 100, 50]


def test_forward_becomes_rescale_where_a_change_breaks_it(monkeypatch):
    one = scenario(sources=2)
    edges = one.canonical()["edges"]
    edges[0]["partitioner"] = "forward"
    epochs, _ = run(scenario(edges=edges), [(8, {"map": 4})], monkeypatch)
    assert [ended.job.scenario.edges[0].partitioner for _, ended in epochs.parts] == [
        "forward",
        "rescale",
    ]


def test_a_parallelism_that_does_not_fit_fails_the_run(monkeypatch):
    options = {
        "taskmanager.memory.network.max": "300kb",
        "taskmanager.memory.network.min": "300kb",
        "taskmanager.memory.segment-size": "4kb",
        "execution.checkpointing.interval": "3 s",
    }
    with pytest.raises(RunError) as error:
        run(scenario(options=options), [(5, {"map": 60})], monkeypatch)
    assert "at 5 s the controller chose a parallelism that the cluster cannot run" in str(
        error.value
    )
    assert "map: 60" in str(error.value)


@pytest.mark.parametrize(("external", "each"), [(False, 150), (True, 100)])
def test_a_new_subtask_is_as_fast_as_the_others_unless_a_service_sets_the_total(external, each):
    """Two subtasks of 300 records/s together become three: 450, or the 300 of the service."""
    one = scenario()
    mapping = one.canonical()
    mapping["stages"][1] |= {"total_rate": 300, "service_rate": None, "external": external}
    found = derive(parse_scenario(mapping), {"source": 2, "map": 3, "sink": 1}, {}, 0, 0)
    stage = found.scenario.stage("map")
    assert [schedule.rate_at(0) for schedule in stage.service_rate] == [each] * 3


def test_nothing_happens_without_a_decision(monkeypatch):
    """The tables are those of the same job without a controller."""
    from flowcontrol.virtual import simulate

    one = scenario()
    _, found = run(one, [], monkeypatch)
    mapping = one.canonical()
    del mapping["scaling"]
    plain = simulate(parse_scenario(mapping))
    for name in ("stages", "channels", "latency", "checkpoints", "checkpoint_tasks"):
        assert found.tables[name].equals(plain.tables[name]), name
    assert scalings_table(one, []).num_rows == 0
