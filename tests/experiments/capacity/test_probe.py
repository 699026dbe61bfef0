"""What counts as sustained, figure by figure at the limits of the rule."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from flowcontrol.errors import RunError
from flowcontrol.experiments.capacity.probe import at_rate, examine, reached_edges
from flowcontrol.records import RESULTS
from flowcontrol.scenario import Scenario, Schedule, parse_scenario

Make = Callable[..., Scenario]
ALLOWANCE = 0.01
RATE = Fraction(1000)


def tables(
    blocked: float = 0.0,
    emitted: float = 1000.0,
    levels: tuple[float, float] = (0.0, 0.0),
    early: float = 0.0,
    subtasks: int = 1,
) -> dict[str, pa.Table]:
    """Twenty samples, 1 s apart; levels in flight of the third and of the last quarter.

    Only the last subtask of the source is blocked; ``early`` is its blocked time before 10 s.
    """
    stages, channels = [], []
    zeros = {name: dict.fromkeys(RESULTS[name].names, 0) for name in RESULTS}
    for t_s in range(1, 21):
        for subtask in range(subtasks):
            late = blocked if subtask == subtasks - 1 else 0.0
            stages.append(
                zeros["stages"]
                | {
                    "t_s": t_s,
                    "stage": "source",
                    "subtask": subtask,
                    "rate_out": emitted,
                    "backpressured_ms_per_s": 1000 * (late if t_s > 10 else early),
                }
            )
        level = levels[0] if t_s <= 15 else levels[1]
        channels.append(
            zeros["channels"]
            | {"t_s": t_s, "edge": "source->sink", "in_flight_records": int(level)}
        )
    made = {"stages": stages, "channels": channels, "latency": []}
    return {
        name: pa.Table.from_pylist(rows, schema=RESULTS[name].arrow_schema())
        for name, rows in made.items()
    }


def judge(scenario: Scenario, **figures: Any) -> bool:
    return examine(scenario, "source", RATE, tables(**figures), ALLOWANCE).is_sustained


@pytest.mark.parametrize(
    ("blocked", "emitted", "sustained"),
    [
        (0.0, 1000.0, True),
        (0.02, 980.0, False),
        (0.02, 1000.0, True),  # blocked, but nothing was lost
        (0.02, 990.0, True),  # at the limit: not less than 1 - e
        (0.02, 989.9, False),
        (0.01, 980.0, True),  # at the limit: not more than e
        (0.0101, 980.0, False),
        (1.0, 0.0, False),
    ],
)
def test_blocked_and_short_of_what_was_offered(
    make: Make, blocked: float, emitted: float, sustained: bool
) -> None:
    assert judge(make(), blocked=blocked, emitted=emitted) is sustained


@pytest.mark.parametrize(("blocked", "sustained"), [(0.009, True), (0.011, False)])
def test_a_random_source_is_judged_by_its_blocked_time(
    make: Make, blocked: float, sustained: bool
) -> None:
    scenario = make(service_time="exponential")
    assert judge(scenario, blocked=blocked, emitted=1003.0) is sustained


def test_what_happened_in_the_first_half_does_not_count(make: Make) -> None:
    assert judge(make(), early=1.0)


def test_the_subtask_that_is_blocked_the_most_counts(make: Make) -> None:
    assert not judge(make(parallelism=4), blocked=0.03, emitted=985.0, subtasks=4)


# A quarter is 5 s: 5,000 records carried, a share of 0.01 is 50; a buffer holds 32 records.
@pytest.mark.parametrize(
    ("levels", "sustained"),
    [
        ((100, 150), True),
        ((100, 151), False),
        ((151, 100), True),
        ((4000, 4040), True),
        ((0, 4000), False),
    ],
)
def test_a_queue_that_grows(make: Make, levels: tuple[float, float], sustained: bool) -> None:
    assert judge(make(), levels=levels) is sustained


def test_a_queue_that_falls_back_does_not_grow_for_ever(make: Make) -> None:
    made = tables(levels=(100, 400))
    column = made["channels"]["in_flight_records"].to_pylist()
    for level, sustained in ((101, False), (100, True)):
        changed = pa.array([*column[:-1], level], pa.int64())
        index = made["channels"].column_names.index("in_flight_records")
        made["channels"] = made["channels"].set_column(index, "in_flight_records", changed)
        assert examine(make(), "source", RATE, made, ALLOWANCE).is_sustained is sustained


def test_less_than_a_buffer_is_no_growth(make: Make) -> None:
    """10 records of 5 s x 10 records/s are a fifth of it, but an open buffer holds up to 32."""
    few = tables(emitted=10.0, levels=(0, 32))
    assert examine(make(), "source", Fraction(10), few, ALLOWANCE).is_sustained
    more = tables(emitted=10.0, levels=(0, 33))
    probe = examine(make(), "source", Fraction(10), more, ALLOWANCE)
    assert not probe.is_sustained
    assert probe.growth.share == pytest.approx(33 / 50)


def test_the_figures_of_a_probe(make: Make) -> None:
    probe = examine(
        make(), "source", RATE, tables(blocked=0.25, emitted=750.0, levels=(10, 20)), ALLOWANCE
    )
    assert (probe.rate, probe.emitted, probe.blocked) == (1000, 750.0, 0.25)
    assert (probe.growth.edge, probe.growth.records) == ("source->sink", 10.0)
    assert probe.latency_ms is None


def test_a_source_whose_rows_end_is_not_judged(make: Make, tmp_path: Any) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    scenario = make(input={"format": "csv", "path": str(tmp_path / "rows.csv")})
    with pytest.raises(RunError, match=r"its input ended; state a shorter duration_s than 20"):
        judge(scenario, emitted=500.0)
    assert not judge(scenario, emitted=500.0, blocked=0.5)


def test_only_the_source_in_question_gets_the_rate(make: Make) -> None:
    scenario = make(parallelism=3)
    changed = at_rate(scenario, "source", Fraction(7, 2))
    assert changed.stage("source").emit_rate == (Schedule.constant(Fraction(7, 2)),) * 3
    assert changed.stage("sink") == scenario.stage("sink")
    assert scenario == make(parallelism=3)
    assert changed.model_copy(update={"stages": scenario.stages}) == scenario


def test_edges_that_records_reach() -> None:
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "y",
            "duration_s": 1,
            "stages": [
                {"name": "a", "emit_rate": 1},
                {"name": "b", "emit_rate": 1},
                {"name": "c"},
                {"name": "d"},
            ],
            "edges": [{"from": "c", "to": "d"}, {"from": "a", "to": "c"}, {"from": "b", "to": "d"}],
        }
    )
    assert [e.name for e in reached_edges(scenario, "a")] == ["c->d", "a->c"]
    assert [e.name for e in reached_edges(scenario, "b")] == ["b->d"]
