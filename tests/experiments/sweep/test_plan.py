"""The plan: products, samples, and what is refused of it."""

from __future__ import annotations

import itertools

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.sweep.plan import divided_totals, make_plan
from flowcontrol.experiments.sweep.varied import MAX_POINTS


def test_the_product_changes_its_last_key_fastest(plan):
    made = plan({"stages.sink.service_rate": [1, 2], "stages.map.service_rate": "5,6,7"})
    assert made.size == made.product == 6
    assert list(made.points()) == list(itertools.product([1, 2], [5, 6, 7]))


@pytest.mark.parametrize(
    "vary", ["sink.service_rate=1,2", ["sink.service_rate=1,2"], [("sink.service_rate", "1,2")]]
)
def test_a_key_may_be_varied_by_a_text_as_the_command_line_has_it(plan, vary):
    assert list(plan(vary).points()) == [(1,), (2,)]


@pytest.mark.parametrize("text", ["sink.service_rate", "=1,2", "sink.service_rate="])
def test_a_text_that_varies_nothing_is_refused(plan, text):
    with pytest.raises(ScenarioError, match="is not of the form KEY=VALUES"):
        plan(["map.service_rate=1,2", text])


TOTAL = ["stages.sink.total_rate=600", "stages.sink.service_rate=null"]
SENTENCE = (
    "sink: its total_rate is divided, so that more subtasks are each slower; if each keeps its "
    "speed, add --set sink.total_rate=null --set sink.service_rate=600; if a service outside sets "
    "it, add --set sink.external=true"
)


@pytest.mark.parametrize(
    ("overrides", "vary", "said"),
    [
        (TOTAL, ["sink.parallelism=1,2"], [SENTENCE]),
        (TOTAL, ["stages[2].parallelism=1,2", "seed=1,2"], [SENTENCE]),
        (TOTAL, ["map.parallelism=1,2"], []),
        (TOTAL, ["sink.parallelism=1,2", "sink.total_rate=600,1200"], []),
        ([*TOTAL, "stages.sink.external=true"], ["sink.parallelism=1,2"], []),
        ([], ["sink.parallelism=1,2"], []),
        (["source.total_rate=600", "source.emit_rate=null"], ["source.parallelism=1,2"], []),
    ],
)
def test_more_subtasks_of_a_total_are_said_to_be_slower(chain, overrides, vary, said):
    base = varied_base(chain, overrides)
    assert list(divided_totals(base, make_plan(base, vary).varied)) == said


def test_a_total_that_changes_has_its_remedy_in_words(chain):
    phases = "stages.sink.total_rate=[{at_s: 0, rate: 600}, {at_s: 5, rate: 60}]"
    base = varied_base(chain, [phases, "stages.sink.service_rate=null"])
    (text,) = divided_totals(base, make_plan(base, "sink.parallelism=1,2").varied)
    assert text.startswith("sink: its total_rate is divided")
    assert "service_rate" not in text


def test_a_sample_draws_points_without_repetition(plan):
    vary = {"stages.sink.service_rate": "1:100:100", "stages.map.service_rate": "1:100:100"}
    drawn = list(plan(vary, sample=300).points())
    assert len(drawn) == len(set(drawn)) == 300
    assert set(drawn) <= set(plan(vary).points())
    assert drawn == list(plan(vary, sample=300).points())
    assert drawn != list(plan(vary, sample=300, seed=2).points())
    # Executor over the whole of it: a first or last quarter of the rows alone would be 0 in 4^300.
    assert {(x - 1) // 25 for x, _ in drawn} == {0, 1, 2, 3}


def test_a_sample_of_a_huge_product_is_drawn_without_making_it(plan):
    keys = ("sink.service_rate", "map.service_rate", "source.emit_rate")
    vary = {f"stages.{key}": "1:50000:50000" for key in keys}
    assert len(list(plan(vary, sample=5).points())) == 5


def test_a_sample_of_everything_is_everything(plan):
    vary = {"stages.sink.service_rate": "1:10:10"}
    assert list(plan(vary, sample=10).points()) == list(plan(vary).points())


def test_labels_are_unlike(plan):
    made = plan({"edges[0].partitioner": ["hash"], "edges[1].partitioner": ["hash"]})
    assert len({varied.label for varied in made.varied}) == 2


def test_a_point_in_words(plan):
    made = plan({"stages.sink.service_rate": [1], "options.taskmanager.memory.segment-size": "4kb"})
    assert made.text((1, "4kb")) == "sink service_rate=1, segment-size=4kb"


@pytest.mark.parametrize(
    ("vary", "more", "words"),
    [
        ({}, {}, ["--vary", "nothing is varied"]),
        ({"stages.sink.service_rate": "1,1"}, {}, ["--vary stages.sink.service_rate", "repeated"]),
        ({"a.": "1"}, {}, ["--vary a.", "not a path"]),
        ({"duration_s": 5}, {}, ["--vary duration_s", "not a list"]),
        ({"stages.sink.service_rate": "1", "stages[2].service_rate": "2"}, {}, ["varied twice"]),
        ({"duration_s": "1"}, {"replications": 0}, ["--replications", "0", "at least 1"]),
        ({"duration_s": "1"}, {"sample": 0}, ["--sample", "0", "at least 1"]),
        ({"duration_s": "1,2"}, {"sample": 3}, ["--sample", "3", "only 2 points"]),
        ({"seed": "1,2"}, {"replications": 2}, ["--replications", "seed is varied"]),
        (
            {"duration_s": "1:1000:1000", "stages.sink.service_rate": "1:1001:1001"},
            {},
            ["1,001,000 variants", f"{MAX_POINTS:,}", "--sample"],
        ),
        (
            {"duration_s": "1:1000:1000", "stages.sink.service_rate": "1:1000:1000"},
            {"replications": 2},
            ["2,000,000 variants"],
        ),
    ],
)
def test_a_plan_that_is_refused(plan, vary, more, words):
    with pytest.raises(ScenarioError) as caught:
        plan(vary, **more)
    for word in words:
        assert word in str(caught.value)


def test_as_many_variants_as_may_be(plan):
    assert plan({"duration_s": "1:1000:1000", "stages.sink.service_rate": "1:1000:1000"}).size == (
        MAX_POINTS
    )


def test_all_problems_are_named_at_once(plan):
    with pytest.raises(ScenarioError) as caught:
        plan({"a.": "1", "duration_s": "1,1"}, replications=0, sample=0)
    assert len(caught.value.problems) == 4


def test_replications_may_stand_beside_one_seed(plan):
    assert plan({"seed": "1,2"}, replications=1).size == 2
