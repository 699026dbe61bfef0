"""The page of a sweep: one file, nothing fetched, every name escaped; and what it says."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import replace

import pytest

from flowcontrol.experiments.sweep.metric import read_metrics
from flowcontrol.experiments.sweep.overview import overview
from flowcontrol.experiments.sweep.page import sweep_page
from flowcontrol.files import write_atomically
from flowcontrol.scenario import parse_scenario

SINK = "stages.sink.service_rate"
MAP = "stages.map.service_rate"


@pytest.fixture
def made(plan, chain, fakes):
    """A function that returns table, plan and metrics of a sweep."""
    made_table = importlib.import_module("results").made_table

    def make(vary, rate=lambda *point: point[0], *, texts=(), table=None, **more):
        planned = plan(vary, **more)
        found = made_table(planned, rate, **(table or {}))
        return found, planned, read_metrics(texts, parse_scenario(chain))

    return make


def test_nothing_is_fetched(made):
    page = sweep_page(*made({SINK: [1, 2], MAP: [1, 2]}))
    assert "default-src 'none'" in page
    markup = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r"\b(src|href)\s*=", markup)
    assert "unsafe-eval" not in markup


def test_every_chart_has_its_place_and_its_figure(made):
    page = sweep_page(*made({SINK: [1, 2], MAP: [1, 2]}))
    (found,) = re.findall(r'<script type="application/json" id="figures">(.*?)</script>', page)
    figures = json.loads(found)
    assert list(figures) == [
        "heat-sink-rate-in-second-half", "heat-sink-latency-p99-ms-second-half", "bottleneck",
    ]  # fmt: skip
    for name in figures:
        assert page.count(f'<div class="chart" id="{name}"') == 1


def test_markup_in_names_is_no_markup(made):
    found, planned, metrics = made({SINK: [1, 2]}, table={"limit": lambda _: "</script><b>"})
    base = replace(planned.base, mapping={**planned.base.mapping, "name": "<i>evil"})
    page = sweep_page(found, replace(planned, base=base), metrics)
    for part in ("<b>", "<i>"):
        assert part not in re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert "&lt;i&gt;evil: sweep" in page


def test_the_page_says_what_was_varied_and_what_came_of_it(made):
    page = sweep_page(*made({SINK: "1:20:20", MAP: [7, 8]}, replications=3))
    for text in (
        "chain: sweep",
        "120 variants on the virtual clock: 40 points (all combinations), 3 replications of each",
        "stages.sink.service_rate",
        "sink_service_rate",
        "… 20 (20 values)",
        "… 20 points between …",
        "service_rate: 500",  # the scenario
    ):
        assert text in page


def test_a_sample_says_its_seed(made):
    assert "(drawn with seed 5), 1 replication of each" in sweep_page(
        *made({SINK: "1:20:20"}, sample=4, seed=5)
    )


def test_the_page_replaces_the_one_before(made, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    write_atomically(path, sweep_page(*made({SINK: [1, 2]})))
    assert path.read_text().startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [path]


# --------------------------------------------------------------------- overview


def test_the_best_is_first_and_the_worst_last(made):
    found = overview(*made({SINK: [2000, 1000, 3000]}))
    assert [row.values for row in found.ends(9)] == [("3,000",), ("2,000",), ("1,000",)]
    assert found.sentence == (
        "Best over the second half of the run: sink.rate_in 3,000 records/s at sink "
        "service_rate=3,000; worst: sink.rate_in 1,000 records/s at sink service_rate=1,000. What "
        "limits, in points: sink 3."
    )


def test_where_lower_is_better_the_lowest_is_first(made):
    found = overview(*made({SINK: [20, 10, 30]}, texts=["sink.latency_p99_ms"]))
    assert [row.values for row in found.ends(9)] == [("10",), ("20",), ("30",)]


def test_figures_carry_their_error(made):
    found = overview(*made({SINK: [10, 20]}, replications=2, texts=["sink.latency_p99_ms"]))
    # 10 and 11 deviate by 0.707; t for one degree of freedom is 12.706.
    assert found.ends(1)[0].figures == ("10.5 ± 6.35", "10.5 ± 6.35")
    assert [m.name for m in found.metrics] == [
        "sink.latency_p99_ms_second_half", "sink.latency_p99_ms",
    ]  # fmt: skip
    assert (found.variants, found.points, found.simulated_s) == (4, 2, 2.0)


def test_points_without_a_value_are_in_no_row_but_are_counted(made):
    found = overview(*made({SINK: [10, 20]}, lambda rate: None if rate == 10 else rate))
    assert [row.values for row in found.ends(9)] == [("20",)]
    assert found.points == 2
    nothing = overview(*made({SINK: [10, 20]}, lambda rate: None))
    assert nothing.sentence == "No point has a value of sink.rate_in_second_half."


def test_what_limits_is_counted(made):
    limits = {1: "sink", 2: "map", 3: "", 4: "sink", 5: "x", 6: "y"}
    found = overview(*made({SINK: list(limits)}, table={"limit": limits.get}))
    assert found.limits == {"sink": 2, "map": 1, "nothing": 1, "x": 1, "y": 1}
    assert found.sentence.endswith("What limits, in points: sink 2, map 1, nothing 1 and 2 more.")


@pytest.mark.parametrize(("points", "rows", "gaps"), [(3, 3, 0), (4, 4, 0), (5, 5, 1)])
def test_both_ends_of_many_points_are_shown(made, points, rows, gaps):
    ends = overview(*made({SINK: f"1000:{1000 * points}:{points}"})).ends(2)
    assert (len(ends), ends.count(None)) == (rows, gaps)
    assert ends[0].values == (f"{points},000",)
    assert ends[-1].values == ("1,000",)


def test_a_large_sweep_is_drawn_in_one_pass(made):
    """A pass over the table for each point would take minutes."""
    page = sweep_page(*made({SINK: "1:100:100", MAP: "1:100:100"}))
    assert "… 9,980 points between …" in page
