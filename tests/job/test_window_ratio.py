"""Results of a window per record, worked out before a run, beside what a run counts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.shares import window_ratio
from flowcontrol.layout.task_settings import link_keys, new_window_settings
from flowcontrol.protocol.event_time import IDS
from flowcontrol.protocol.network.partitioners import channel_of_key, default_max_parallelism
from flowcontrol.protocol.windows.contents import GLOBAL, PANES, SESSIONS
from flowcontrol.protocol.windows.triggers import (
    CONTINUOUS_CLOCK,
    CONTINUOUS_EVENT,
    COUNT,
    EVENT,
    PROCESSING,
)
from flowcontrol.scenario import Scenario, parse_scenario
from modules import load

watched_runs: Any = load("tests/job/watched_runs.py")

TIMED = {"event_time": {}, "watermark": {"delay_s": 0}}


def scenario(window: dict[str, Any], *, edge: Any = None, **keys: Any) -> Scenario:
    """200 records/s from two subtasks into windows."""
    source = {"name": "source", "parallelism": 2, "emit_rate": 100, "record_bytes": 100}
    edges = [{"from": "source", "to": "count", **(edge or {"partitioner": "global"})}]
    return parse_scenario(
        {
            "schema": 1,
            "name": "ratio",
            "duration_s": 10,
            "round_ms": 100,
            "stages": [{**source, **TIMED}, {"name": "count", "window": window, **keys}],
            "edges": edges,
        }
    )


CASES = {
    # window: results per record
    "many records of a window": ({"kind": "tumbling", "size_s": 1, "keys": 10}, Fraction(10, 200)),
    "fewer than one": ({"kind": "tumbling", "size_s": 1, "keys": 5000}, Fraction(1)),
    "in four windows each": (
        {"kind": "sliding", "size_s": 2, "slide_s": 0.5, "keys": 10},
        Fraction(10 * 2, 200),
    ),
    "counted": ({"kind": "global", "trigger": {"count": 8}}, Fraction(1, 8)),
    "again and again": (
        {"kind": "tumbling", "size_s": 1, "keys": 10, "trigger": {"continuous_s": 0.25}},
        Fraction(10 * 5, 200),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_what_rates_keys_and_sizes_make(case: str) -> None:
    window, ratio = CASES[case]
    given = scenario(window)
    assert window_ratio(given, given.stage("count")) == ratio
    assert window_ratio(given, given.stage("source")) is None
    [operator] = build_physical_graph(given).stage("count").operators
    assert operator.ratio == ratio


@pytest.mark.parametrize("case", ["many records of a window", "in four windows each", "counted"])
def test_a_run_comes_near_it(case: str) -> None:
    """Within a quarter, as windows of the last seconds are not over."""
    window, ratio = CASES[case]
    *_, last = watched_runs.WatchedRun(build_physical_graph(scenario(window))).rounds()
    [operator] = last.task("count").operators
    assert operator.records_out == pytest.approx(float(ratio * operator.records_in), rel=0.25)


def test_sessions_are_fewer_the_longer_the_gap() -> None:
    gaps = [scenario({"kind": "session", "gap_s": gap, "keys": 20}) for gap in (0.001, 0.1, 1)]
    found = [window_ratio(given, given.stage("count")) for given in gaps]
    assert found == [Fraction(1) / (1 + x + x * x / 2) for x in map(Fraction, ("0.01", "1", "10"))]


def test_a_window_behind_a_window_gets_its_results() -> None:
    given = scenario({"kind": "global", "trigger": {"count": 10}}).canonical()
    given["stages"].append(
        {"name": "second", "window": {"kind": "tumbling", "size_s": 1, "keys": 4}}
    )
    given["edges"].append({"from": "count", "to": "second"})
    found = parse_scenario(given)
    assert window_ratio(found, found.stage("second")) == Fraction(4, 20)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({"kind": "tumbling", "size_s": 2, "offset_s": 0.5}, (PANES, 1, EVENT, 2000, 2000, 1, 0)),
        ({"kind": "sliding", "size_s": 2, "slide_s": 0.3}, (PANES, 1, EVENT, 2000, 300, 7, 0)),
        (
            {"kind": "session", "gap_s": 1, "trigger": {"continuous_s": 2}, "accumulate": False},
            (SESSIONS, 1, CONTINUOUS_EVENT, 1, 1, 1, 1),
        ),
        ({"kind": "global", "trigger": {"count": 3}}, (GLOBAL, 0, COUNT, 1, 1, 1, 0)),
        (
            {"kind": "global", "trigger": {"continuous_s": 3}},
            (GLOBAL, 0, CONTINUOUS_CLOCK, 1, 1, 1, 0),
        ),
        (
            {"kind": "tumbling", "size_s": 2, "trigger": "processing_time"},
            (PANES, 0, PROCESSING, 2000, 2000, 1, 0),
        ),
    ],
)
def test_what_the_rules_are_told(window: dict[str, Any], expected: tuple[int, ...]) -> None:
    plan = scenario(window).window_of("count")
    assert plan is not None
    s = new_window_settings(plan)
    found = s.kind, s.is_event_time, s.trigger, s.size, s.slide, s.overlap, s.is_purging
    assert found == expected


@pytest.mark.parametrize(
    ("keys", "firsts"),
    [
        ({"key_distribution": {"kind": "uniform", "keys": 3}}, []),
        (
            {"key_distribution": {"kind": "hot", "keys": 3, "share": 0.5}},
            [0, IDS // 2, 3 * IDS // 4],
        ),
        ({"key_weights": {"a": 3, "b": 0, "c": 1}}, [0, 3 * IDS // 4, 3 * IDS // 4]),
    ],
)
def test_keys_have_the_ids_of_their_share(keys: dict[str, Any], firsts: list[int]) -> None:
    window = {"kind": "tumbling", "size_s": 1}
    given = scenario(window, edge={"partitioner": "hash", **keys}, parallelism=2)
    job = build_physical_graph(given)
    found = link_keys(job, job.links[0])
    assert found is not None
    assert found.firsts.tolist() == firsts
    names = list(keys.get("key_weights", "123"))
    groups = default_max_parallelism(2)
    assert found.owners.tolist() == [channel_of_key(name, 2, groups) for name in names]


def test_zipf_gives_the_first_key_most() -> None:
    edge = {"partitioner": "hash", "key_distribution": {"kind": "zipf", "keys": 100}}
    job = build_physical_graph(
        scenario({"kind": "tumbling", "size_s": 1}, edge=edge, parallelism=2)
    )
    found = link_keys(job, job.links[0])
    assert found is not None
    widths = [b - a for a, b in zip(found.firsts, [*found.firsts[1:], IDS], strict=True)]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] / widths[9] == pytest.approx(10**1.1, rel=0.01)
