"""From a dump of Flink's REST API to a scenario: rates, shapes, options, what is not known."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.calibration.bodies import read_dump
from flowcontrol.calibration.calibrate import fit_scenario
from flowcontrol.calibration.fit_flink import fit_flink
from flowcontrol.calibration.flink_rest import read_job
from flowcontrol.calibration.predict import beside, bottleneck, predict
from flowcontrol.calibration.readings import in_flight
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import run_job
from modules import load

synthesise = load("tests/calibration/synthesise.py")


def polls_of(dump: dict[str, Any], part: str) -> list[Any]:
    """Return all bodies whose path holds a text."""
    return [body for poll in dump["polls"] for path, body in poll.items() if part in path]


def subtasks(dump: dict[str, Any], synthesise: ModuleType, stage: str) -> list[Any]:
    """Return a stage's subtasks of each poll."""
    return [body["subtasks"] for body in polls_of(dump, f"/vertices/{synthesise.identity(stage)}")
            if isinstance(body, dict)]  # fmt: skip


def test_a_chain_comes_back(chain: dict[str, Any]) -> None:
    scenario, figures = fit_scenario(flink_rest=chain)
    assert [stage.name for stage in scenario.stages] == ["orders", "map", "sink"]
    rate = float(figures["stages.orders.emit_rate"].value)
    assert rate == pytest.approx(5000, rel=0.02)
    assert figures["stages.map.service_rate"].value == pytest.approx([900, 1500], rel=0.001)
    assert figures["stages.sink.service_rate"].value == pytest.approx(500, rel=0.001)
    assert figures["stages.map.selectivity"].value == 0.5
    assert figures["stages.orders.record_bytes"].value == pytest.approx(1017, rel=0.002)
    weights = figures["edges.map->sink.channel_weights"].value
    assert weights == pytest.approx([0.5, 0.3, 0.2], abs=0.001)
    assert [edge.partitioner for edge in scenario.edges] == ["rebalance", "hash"]
    assert [stage.placement for stage in scenario.stages] == [(0,), (1, 2), (0, 1, 2)]
    assert scenario.options.segment_bytes == 16384
    assert scenario.checkpointing is not None
    assert scenario.checkpointing.interval_us == 5_000_000


def test_every_figure_of_the_input_is_predicted(chain: dict[str, Any]) -> None:
    draft = fit_flink(read_job(*read_dump(chain)))
    scenario = parse_scenario(draft.mapping)
    tables = run_job(job_for(scenario, "virtual")).tables
    rows = beside(draft.observed, predict(tables, scenario, draft.warm_up_s))
    assert len(rows) == len(draft.observed)
    assert [(row.place, row.name) for row in rows if not row.is_within] == []
    assert {"rate_in", "busy_ms_per_s", "in_flight_records", "checkpoint_e2e_ms"} <= {
        row.name for row in rows
    }
    assert draft.contradictions == []
    assert draft.bottleneck == bottleneck(tables, scenario, draft.warm_up_s) == "map"


def test_a_warm_up_that_ends_between_two_samples_gives_the_same_rates() -> None:
    stages = [{"name": "source", "emit_rate": 100}, {"name": "sink", "service_rate": 50}]
    scenario = parse_scenario(
        {"schema": 1, "name": "small", "duration_s": 4, "round_ms": 20, "stages": stages}
        | {"sample_interval_s": 0.5, "edges": [{"from": "source", "to": "sink"}]}
    )
    tables = run_job(job_for(scenario, "virtual")).tables
    found = predict(tables, scenario, 1.3)
    assert found == predict(tables, scenario, 1.0)
    assert found["sink", "rate_in"] == pytest.approx(50, rel=0.01)


def test_what_cannot_be_known_is_assumed_by_name(chain: dict[str, Any]) -> None:
    for path in ("/jobmanager/config", "/taskmanagers/tm-0", "/config"):
        del chain["polls"][0][path]
    _, figures = fit_scenario(flink_rest=chain)
    assumed = {key for key, figure in figures.items() if figure.is_assumed}
    assert {
        "system",
        "cluster.network_latency_ms",
        "cluster.bandwidth_bytes_per_s",
        "options.taskmanager.memory.segment-size",
        "options.taskmanager.network.memory.buffers-per-channel",
        "options.execution.buffer-timeout.interval",
    } == {key for key in assumed if "max-" not in key and "floating" not in key}
    assert figures["options.taskmanager.memory.segment-size"].value == "32kb"
    assert all(figure.origin for figure in figures.values())


def test_busy_time_that_is_nan_says_nothing(chain: dict[str, Any]) -> None:
    for rows in subtasks(chain, synthesise, "sink"):
        for row in rows:
            row["metrics"]["accumulated-busy-time"] = "NaN"
    scenario, figures = fit_scenario(flink_rest=chain)
    assert scenario.stage("sink").service_rate is None
    assert figures["stages.sink.service_rate"].is_assumed


def test_counters_older_than_the_poll_give_the_same_rates(chain: dict[str, Any]) -> None:
    """Flink fetches metrics every 10 s: the last poll has those of five seconds before."""
    polls = chain["polls"]
    before = next(
        poll for poll in reversed(polls)
        if poll[next(iter(poll))]["now"] <= polls[-1][next(iter(polls[-1]))]["now"] - 5000
    )  # fmt: skip
    places = [path for path in before if "/vertices/" in path and "?" not in path]
    for path in places:
        for new, old in zip(polls[-1][path]["subtasks"], before[path]["subtasks"], strict=True):
            new["metrics"] = old["metrics"]
    chain["polls"] = [polls[0], polls[-1]]
    draft = fit_flink(read_job(*read_dump(chain)))
    observed = {(one.place, one.name): one.value for one in draft.observed}
    assert observed["map/0", "rate_in"] == pytest.approx(900, rel=0.002)
    assert observed["map/0", "busy_ms_per_s"] == pytest.approx(1000, rel=0.002)


def test_paths_may_have_a_version_and_polls_may_be_a_bare_list(chain: dict[str, Any]) -> None:
    bare = [{f"/v1{path}": body for path, body in poll.items()} for poll in chain["polls"]]
    assert fit_scenario(flink_rest=bare).scenario == fit_scenario(flink_rest=chain).scenario


def test_a_file_may_be_compressed(chain: dict[str, Any], tmp_path: Path) -> None:
    import gzip

    file = tmp_path / "dump.json.gz"
    file.write_bytes(gzip.compress(json.dumps(chain).encode()))
    assert fit_scenario(flink_rest=file).scenario == fit_scenario(flink_rest=chain).scenario


def test_metrics_of_vertices_alone_are_shared_out(chain: dict[str, Any]) -> None:
    """The body of a job holds sums of its vertices: subtasks then have even parts, and a place."""
    for poll in chain["polls"]:
        [job] = [path for path in poll if path.count("/") == 2 and path.startswith("/jobs/")]
        for vertex in poll[job]["vertices"]:
            rows = poll[f"{job}/vertices/{vertex['id']}"]["subtasks"]
            vertex["metrics"] = {
                key: sum(row["metrics"][key] for row in rows)
                for key in rows[0]["metrics"]
                if not key.endswith("complete")
            }
        for path in [path for path in poll if "/vertices/" in path]:
            del poll[path]
    _, figures = fit_scenario(flink_rest=chain)
    assert figures["stages.map.service_rate"].value == pytest.approx(1800 / 1.6, rel=0.01)
    assert figures["cluster.task_managers"].is_assumed


def test_the_source_of_two_outputs_counts_each_record_twice() -> None:
    fan = {
        "schema": 1,
        "name": "fan",
        "duration_s": 40,
        "sample_interval_s": 0.37,
        "cluster": {"task_managers": 3},
        "stages": [
            {"name": "source", "emit_rate": 1500, "record_bytes": 267},
            {"name": "store", "service_rate": 560},
            {"name": "alert", "service_rate": 1400},
        ],
        "edges": [
            {"from": "source", "to": "store", "partitioner": "rebalance"},
            {"from": "source", "to": "alert", "partitioner": "rebalance"},
        ],
    }
    dump, _ = synthesise.dump_of(fan)
    once = fit_scenario(flink_rest=dump).figures["stages.source.emit_rate"].value
    for rows in subtasks(dump, synthesise, "source"):
        rows[0]["metrics"]["write-records"] *= 2
    draft = fit_flink(read_job(*read_dump(dump)))
    twice = next(one.value for one in draft.figures if one.key == "stages.source.emit_rate")
    assert twice == pytest.approx(once) == pytest.approx(1500, rel=0.03)
    places = [one.place for one in draft.observed if one.name == "in_flight_records"]
    assert places == ["source->store", "source->alert"]


def test_a_source_with_a_log_gets_both_rates(chain: dict[str, Any]) -> None:
    """pendingRecords grow by 100/s: that much more arrives than is read."""
    place = f"/vertices/{synthesise.identity('orders')}/subtasks/0/metrics"
    first = None
    for poll in chain["polls"]:
        [path] = [path for path in poll if place in path]
        now = next(
            body["now"] for body in poll.values() if isinstance(body, dict) and "now" in body
        )
        first = now if first is None else first
        waiting = 5000 + (now - first) / 10
        poll[path].append({"id": "Source__orders.pendingRecords", "value": str(waiting)})
    scenario, figures = fit_scenario(flink_rest=chain)
    assert scenario.stage("orders").reads_log
    assert figures["stages.orders.arrival_rate"].value == pytest.approx(1900, rel=0.01)


STAGES = st.integers(1, 3)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a chain of stages, some of which may be too slow for what comes."""
    count = draw(st.integers(1, 3))
    offered = 1000.0 * draw(st.sampled_from([1, 2, 4]))
    stages: list[dict[str, Any]] = [
        {"name": "s0", "emit_rate": offered, "record_bytes": draw(st.integers(60, 2000))}
    ]
    edges, carried = [], offered
    for number in range(1, count + 1):
        parallelism = draw(STAGES)
        factor = draw(st.sampled_from([1.4, 0.6, 0.9, 2.5]))
        selectivity = draw(st.sampled_from([0.25, 0.5, 1, 1.5])) if number < count else 1
        stage = {"name": f"s{number}", "parallelism": parallelism, "selectivity": selectivity}
        stage["service_rate"] = round(carried * factor / parallelism, 1)
        partitioner = draw(st.sampled_from(["rebalance", "hash"]))
        edge = {"from": f"s{number - 1}", "to": f"s{number}", "partitioner": partitioner}
        if partitioner == "hash":
            edge["channel_weights"] = draw(
                st.lists(st.integers(1, 5), min_size=parallelism, max_size=parallelism)
            )
        stages.append(stage)
        edges.append(edge)
        carried *= min(1.0, factor) * selectivity
    return {
        "schema": 1, "name": "drawn", "duration_s": 50, "sample_interval_s": 0.37,
        "cluster": {"task_managers": 2}, "stages": stages, "edges": edges,
        "options": {"taskmanager.memory.segment-size": draw(st.sampled_from(["4kb", "16kb"]))},
    }  # fmt: skip


def test_a_drawn_job_comes_back(draw_until: Any) -> None:
    """A scenario, its run, a dump of it, the fit: the same rates, shares and selectivities."""
    limited: set[str | None] = set()

    @settings(max_examples=max(1, settings.default.max_examples // 5))
    @given(jobs())
    def look(given_: dict[str, Any]) -> None:
        dump, _ = synthesise.dump_of(given_)
        job = read_job(*read_dump(dump))
        draft = fit_flink(job)
        limited.add(draft.bottleneck)
        found = {figure.key: figure for figure in draft.figures}
        for stage in given_["stages"][1:]:
            figure = found[f"stages.{stage['name']}.service_rate"]
            values = figure.value if isinstance(figure.value, list) else [figure.value]
            assert values == pytest.approx([stage["service_rate"]] * len(values), rel=0.01)
            if stage is not given_["stages"][-1]:
                ratio = found[f"stages.{stage['name']}.selectivity"].value
                assert ratio == pytest.approx(stage["selectivity"], rel=0.01)
        offered = found["stages.s0.emit_rate"].value
        # With each buffer that comes free a record leaves at once that was due meanwhile.
        size, kib = given_["stages"][0]["record_bytes"], 1024
        segment = kib * int(given_["options"]["taskmanager.memory.segment-size"].removesuffix("kb"))
        most = max(0.06, size / segment)
        assert offered == pytest.approx(given_["stages"][0]["emit_rate"], rel=most)
        for edge in given_["edges"]:
            if "channel_weights" in edge:
                total = sum(edge["channel_weights"])
                want = [one / total for one in edge["channel_weights"]]
                key = f"edges.{edge['from']}->{edge['to']}.channel_weights"
                # What queues up meanwhile, of the slowest subtask, is in nobody's share.
                levels = in_flight(job, edge["to"])
                taken = job.stage(edge["to"]).total(lambda one: one.growth("records_in")) or 1
                grown = abs(levels[-1] - levels[0]) / taken
                assert found[key].value == pytest.approx(want, abs=0.01 + grown)
        # The queue of a slow stage at the end of a chain may still grow after 20 s.
        assert [one for one in draft.contradictions if "not settled" not in one.sentence] == []

    # Hard is a stage that limits, and one that does not.
    draw_until(look, lambda: None in limited and len(limited) > 1, 20)
    assert None in limited
    assert len(limited) > 1
