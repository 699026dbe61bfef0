"""What a search asks for: each point once, by seed and by what was told, and what it finds."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.sweep.varied import Varied, read_values
from flowcontrol.experiments.tune.judge import Verdict, axes_of
from flowcontrol.experiments.tune.plan import Space, in_order
from flowcontrol.experiments.tune.search import Outcome, explore

ORDERS = [
    ("3,1,2", [1, 2, 3]),
    ("32kb,4kb,1mb", ["4kb", "32kb", "1mb"]),
    ("1s,200ms,5ms", ["5ms", "200ms", "1s"]),
    ("true,false", None),
    ("hash,rebalance", None),
    ("1,4kb", [1, "4kb"]),
    ("1,rebalance", None),
    ("0.5,0.25", [0.25, 0.5]),
]


@pytest.mark.parametrize(("text", "ordered"), ORDERS, ids=lambda one: str(one))
def test_numbers_sizes_and_durations_have_an_order(text, ordered):
    assert in_order(read_values(text)) == ordered


def test_the_places_of_a_space_are_those_of_its_values():
    space = Space(
        (
            Varied(("a",), ("32kb", "4kb", "8kb"), "a", "a"),
            Varied(("b",), ("x", "y", "z"), "b", "b"),
        )
    )
    assert space.size == 9
    assert space.scales == (("4kb", "8kb", "32kb"), ("x", "y", "z"))
    for places in itertools.product(range(3), range(3)):
        assert space.places(space.at(places)) == space.named(places)
        assert space.point(space.named(places)) == space.at(places)
    # 4kb is a step from 8kb, no more; each of x, y, z is one from the others.
    assert sorted(space.neighbours((0, 1))) == [(0, 0), (0, 2), (1, 1)]
    assert sorted(space.neighbours((1, 0))) == [(0, 0), (1, 1), (1, 2), (2, 0)]


def outcomes(fakes) -> Callable:
    """Return a function that runs points of a plan at once, with the simulation of the fakes."""

    def run(plan, told=None):
        def run_points(points, most):
            found = []
            for point in points[:most]:
                if told is not None:
                    told.append(point)
                scenario = plan.sweep.scenario(point)
                window = fakes.window_of(scenario)
                values = {
                    "sink.latency_p99_ms": 10.0 + window / 1000,
                    "sink.rate_in": min(500.0, window / 120),
                }
                values |= {
                    one.name: one.value(scenario, {}) for one in plan.goals.measures
                    if not one.figure.needs_run
                }  # fmt: skip
                found.append(Outcome(point, json.dumps(point), values))
            return found

        return run_points

    return run


def search(plan, fakes):
    return explore(plan, outcomes(fakes)(plan))


def points(found):
    return [one.point for one in found]


LIMITS = ("sink.rate_in>=450", "sink.latency_p99_ms<=90")


def whole_grid(plan, fakes):
    return outcomes(fakes)(plan)(list(itertools.product(*plan.space.scales)), 160)


def test_a_search_finds_the_best_of_the_grid_with_a_fourth_of_its_runs(planned, fakes):
    plan = planned(limits=LIMITS)
    axes = axes_of(plan.goals, plan.example)
    best = Verdict(plan.goals, axes, tuple(whole_grid(plan, fakes))).best
    for seed in (1, 2):
        plan = planned(limits=LIMITS, runs=40, seed=seed)
        found = Verdict(plan.goals, axes, tuple(search(plan, fakes))).best
        assert best is not None
        assert found is not None
        assert found.values["memory"] == best.values["memory"]


def test_a_point_that_memory_alone_rules_out_is_not_run(planned, fakes):
    """And where all others are, the search ends, though it may run more."""
    plan = planned(limits=LIMITS, runs=150)
    found = search(plan, fakes)
    verdict = Verdict(plan.goals, axes_of(plan.goals, plan.example), tuple(found))
    best = verdict.best
    assert best is not None
    cheaper = [o for o in whole_grid(plan, fakes) if o.values["memory"] < best.values["memory"]]
    assert not [one for one in cheaper if verdict.is_feasible(one)]
    assert {one.point for one in cheaper} <= set(points(found))
    assert len(found) < 150
    # After the first batch nothing is run that is no better than the best so far.
    lowest = float("inf")
    for at in range(0, len(found), plan.batch):
        batch = found[at : at + plan.batch]
        assert all(one.values["memory"] < lowest for one in batch)
        fair = [one.values["memory"] for one in batch if verdict.is_feasible(one)]
        lowest = min([lowest, *fair])


def test_a_limit_of_memory_is_kept_without_a_run(planned, fakes):
    limits = ("memory<=100kb",)
    plan = planned(("sink.latency_p99_ms",), limits, runs=30, maximise=("sink.rate_in",))
    grid = whole_grid(plan, fakes)
    small = {one.point for one in grid if one.values["memory"] <= 102_400}
    assert 0 < len(small) < 30
    assert set(points(search(plan, fakes))) == small
    # Where no point can keep it, one is run, so that it can be said by how much it misses.
    least = min(one.values["memory"] for one in grid)
    plan = planned(("sink.latency_p99_ms",), ("memory<=1kb",), runs=30)
    (nearest,) = search(plan, fakes)
    assert nearest.values["memory"] == least


def test_a_search_asks_for_every_point_once_and_then_ends(planned, fakes):
    vary = {fakes.EXCLUSIVE: "1,2,3", fakes.SEGMENT: "4kb,8kb"}
    plan = planned(("sink.latency_p99_ms",), vary=vary, runs=50)
    found = points(search(plan, fakes))
    assert len(found) == len(set(found)) == plan.space.size == 6


def test_the_scenario_as_given_is_asked_for_first(planned, fakes):
    plan = planned(runs=3)
    assert plan.given_point == (2, 8, "8kb")
    assert points(search(plan, fakes))[0] == (2, 8, "8kb")
    # Written another way it is the same; where one key has another value it is not a point.
    assert planned(vary={fakes.SEGMENT: "4096,8192"}).given_point == (8192,)
    assert planned(vary={fakes.SEGMENT: "4kb,16kb", fakes.EXCLUSIVE: "2,3"}).given_point is None


def test_a_search_of_more_runs_begins_with_the_same_points(planned, fakes):
    aim = ("sink.latency_p99_ms",)
    few, many = (points(search(planned(aim, runs=runs), fakes)) for runs in (23, 40))
    assert len(few) == 23
    assert many[:23] == few
    assert points(search(planned(aim, runs=23, seed=2), fakes)) != few
    assert points(search(planned(aim, runs=23), fakes)) == few


def test_refused_points_cost_no_run(planned, fakes):
    """Of a fourth of the points nothing can be run; as many others are."""
    plan = planned(("sink.latency_p99_ms",), maximise=("sink.rate_in",), runs=50)
    run_all = outcomes(fakes)(plan)

    def run(points, most):
        found, left = [], most
        for point in points:
            if not left:
                break
            if point[2] == "32kb":
                found.append(Outcome(point, "", {}, reason="too large"))
                continue
            found += run_all([point], 1)
            left -= 1
        return found

    found = explore(plan, run)
    assert sum(not one.reason for one in found) == 50
    assert any(one.reason for one in found)
    # The estimator learns to leave them: fewer than the fourth that draws would have.
    assert sum(bool(one.reason) for one in found[20:]) < len(found[20:]) / 4


def test_a_search_ends_where_nothing_can_be_run(planned, fakes):
    def refuse(points, most):
        return [Outcome(point, "", {}, reason="no") for point in points]

    plan = planned(vary={fakes.EXCLUSIVE: "1:6:6", fakes.SEGMENT: "4kb,8kb"}, runs=10)
    found = explore(plan, refuse)
    assert len(found) == 12
    verdict = Verdict(plan.goals, axes_of(plan.goals, plan.example), tuple(found))
    assert (verdict.best, verdict.nearest, verdict.front) == (None, None, ())


REFUSED = [
    ({"vary": {}}, "nothing is varied"),
    ({"vary": {"stages.sink.service_rate": "100"}}, "one value is nothing to choose from"),
    ({"vary": {"stages.sink.service_rate": "100,-5"}}, "service_rate=-5"),
    ({"vary": {"stages.sink.service_rate": "5:5:3"}}, "both ends are 5"),
    ({"vary": {"stages.sink.service_rate": "5:9:1"}}, "2 to 1,000,000 points"),
    ({"vary": {"options.taskmanager.memory.segment-size": "4kb,5kb"}}, "segment-size\"=5kb"),
    ({"vary": {"stages.snik.service_rate": "1,2"}}, "'snik'"),
    ({"runs": 0}, "--runs: 0: state at least 1"),
    ({"runs": 100_001}, "at most 100,000"),
    ({"batch": 0}, "--batch: 0"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "said"), REFUSED, ids=lambda one: str(one)[:50])
def test_what_a_search_cannot_do_is_refused(planned, more, said):
    with pytest.raises(ScenarioError) as caught:
        planned(**more)
    assert said in str(caught.value)


def test_a_value_that_fits_with_some_others_only_is_no_error(planned, fakes):
    """40 buffers a task manager: 16 floating ones fit with few exclusive ones alone."""
    buffers = "options.taskmanager.network.numberOfBuffers"
    vary = {fakes.EXCLUSIVE: "1,2,30", fakes.FLOATING: "1,2", buffers: "12,100"}
    assert planned(vary=vary).space.size == 12
    vary = {fakes.EXCLUSIVE: "1,2,3", buffers: "2,100"}
    with pytest.raises(ScenarioError, match=r"numberOfBuffers.*=2.*Insufficient number"):
        planned(vary=vary)


figures = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), min_size=1, max_size=30
)


@given(rows=figures)
@settings(max_examples=settings.default.max_examples * 2)
def test_the_front_is_what_no_other_point_beats(rows, front_goals):
    found = tuple(
        Outcome((number,), str(number), {"memory": one, "sink.latency_p99_ms": two,
                                         "sink.rate_in": 500.0 if good else 1.0})
        for number, (one, two, good) in enumerate(rows)
    )  # fmt: skip
    goals, axes = front_goals
    verdict = Verdict(goals, axes, found)
    fair = [(one, two) for one, two, good in rows if good]
    beaten = {
        a for a in fair for b in fair if b != a and b[0] <= a[0] and b[1] <= a[1]
    }  # fmt: skip
    front = [(o.values["memory"], o.values["sink.latency_p99_ms"]) for o in verdict.front]
    assert sorted(front) == sorted(set(fair) - beaten)
    assert (verdict.best is None) == (not fair)
    assert verdict.best is None or verdict.best in verdict.front


@pytest.fixture(scope="module")
def front_goals():
    import sys
    from pathlib import Path

    from flowcontrol.experiments.tune.goals import read_goals
    from flowcontrol.scenario.given import as_scenario

    sys.path.insert(0, str(Path(__file__).parents[1] / "sweep"))
    try:
        import sweep_fakes
    finally:
        sys.path.pop(0)
    scenario = as_scenario(sweep_fakes.CHAIN)
    aims = [("minimise", "memory"), ("minimise", "sink.latency_p99_ms")]
    goals = read_goals(aims, ["sink.rate_in>=400"], scenario)
    return goals, axes_of(goals, scenario)
