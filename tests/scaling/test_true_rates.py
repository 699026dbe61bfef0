"""DS2's pass, by tables worked out by hand from the paper, and by what holds of every topology."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.scaling import ds2

CHAIN = [("source", "split"), ("split", "count")]

# Each step: topology, rates, source rates, factor, and what follows by hand.
# need = what comes in / (sum of true rates / instances); out = sum of outputs x need / instances
STEPS = [
    # 1: Heron's word count: 1 M sentences/min, 100 K/min a splitter: 10. Of 20 words a sentence
    # 20 M words/min, 1 M/min a counter: 20.
    (CHAIN, {"source": [(0, 1e6)], "split": [(1e5, 2e6)], "count": [(1e6, 0)]}, {"source": 1e6}, 0,
     {"split": (10.0, 10), "count": (20.0, 20)}),
    # 2: the same from 10 and 20 instances: nothing changes.
    (CHAIN, {"source": [(0, 1e6)], "split": [(1e5, 2e6)] * 10, "count": [(1e6, 0)] * 20},
     {"source": 1e6}, 0, {"split": (10.0, 10), "count": (20.0, 20)}),
    # 3: from too many: 30 and 40.
    (CHAIN, {"source": [(0, 1e6)], "split": [(1e5, 2e6)] * 30, "count": [(1e6, 0)] * 40},
     {"source": 1e6}, 0, {"split": (10.0, 10), "count": (20.0, 20)}),
    # 4: a need that is not whole goes on as it is: 250 / 100 = 2.5 -> 3; 2.5 x 200 = 500 / 120.
    (CHAIN, {"source": [(0, 250)], "split": [(100, 200)], "count": [(120, 0)]}, None, 0,
     {"split": (2.5, 3), "count": (500 / 120, 5)}),
    # 5: without external rates the source's true output counts, of all its instances.
    (CHAIN, {"source": [(0, 100), (0, 150)], "split": [(100, 100)], "count": [(50, 0)]}, None, 0,
     {"split": (2.5, 3), "count": (5.0, 5)}),
    # 6: an external rate replaces the true output.
    (CHAIN, {"source": [(0, 100), (0, 150)], "split": [(100, 100)], "count": [(50, 0)]},
     {"source": 500}, 0, {"split": (5.0, 5), "count": (10.0, 10)}),
    # 7: a factor adds a share before rounding: 2.5 x 1.2 = 3; 5 x 1.2 = 6. The need stays.
    (CHAIN, {"source": [(0, 250)], "split": [(100, 100)], "count": [(50, 0)]}, None, 0.2,
     {"split": (2.5, 3), "count": (5.0, 6)}),
    # 8: skewed instances: the mean of 150 and 50 is 100.
    (CHAIN, {"source": [(0, 300)], "split": [(150, 300), (50, 100)], "count": [(100, 0)]}, None, 0,
     {"split": (3.0, 3), "count": (6.0, 6)}),
    # 9: a filter: a tenth comes out. 1000 / 250 = 4; 4 x 25 = 100 / 50 = 2.
    (CHAIN, {"source": [(0, 1000)], "split": [(250, 25)], "count": [(50, 0)]}, None, 0,
     {"split": (4.0, 4), "count": (2.0, 2)}),
    # 10: an operator that drops everything: nothing comes to the next.
    (CHAIN, {"source": [(0, 1000)], "split": [(250, 0)], "count": [(50, 0)]}, None, 0,
     {"split": (4.0, 4), "count": (0.0, 0)}),
    # 11: a source that is still.
    (CHAIN, {"source": [(0, 0)], "split": [(250, 25)], "count": [(50, 0)]}, None, 0,
     {"split": (0.0, 0), "count": (0.0, 0)}),
    # 12: two sources into a join: 300 + 500.
    ([("left", "join"), ("right", "join")],
     {"left": [(0, 300)], "right": [(0, 500)], "join": [(100, 0)]}, None, 0, {"join": (8.0, 8)}),
    # 13: the rate of one of them is given.
    ([("left", "join"), ("right", "join")],
     {"left": [(0, 300)], "right": [(0, 500)], "join": [(100, 0)]}, {"right": 50}, 0,
     {"join": (3.5, 4)}),
    # 14: the whole output goes to each receiver, not a share.
    ([("source", "a"), ("source", "b")], {"source": [(0, 400)], "a": [(100, 0)], "b": [(200, 0)]},
     None, 0, {"a": (4.0, 4), "b": (2.0, 2)}),
    # 15: a diamond: both branches pass all on, 400 + 400.
    ([("source", "a"), ("source", "b"), ("a", "end"), ("b", "end")],
     {"source": [(0, 400)], "a": [(100, 100)], "b": [(200, 200)], "end": [(100, 0)]}, None, 0,
     {"a": (4.0, 4), "b": (2.0, 2), "end": (8.0, 8)}),
    # 16: an edge that stands twice counts once: the graph has no parallel edges.
    ([("source", "a"), ("source", "a")], {"source": [(0, 400)], "a": [(100, 0)]}, None, 0,
     {"a": (4.0, 4)}),
    # 17: exactly whole is not one more, in tenths: 0.3 / 0.1.
    ([("source", "a")], {"source": [(0, 0.3)], "a": [(0.1, 0)]}, None, 0, {"a": (0.3 / 0.1, 3)}),
    # 18: a little above is one more.
    ([("source", "a")], {"source": [(0, 300.001)], "a": [(100, 0)]}, None, 0, {"a": (3.00001, 4)}),
    # 19: edges in any order.
    ([("c", "d"), ("b", "c"), ("a", "b")],
     {"a": [(0, 80)], "b": [(20, 40)], "c": [(40, 10)], "d": [(5, 0)]}, None, 0,
     {"b": (4.0, 4), "c": (4.0, 4), "d": (8.0, 8)}),
    # 20: the first step of a job that scales worse than linearly: at one instance 100 records/s.
    ([("source", "a")], {"source": [(0, 1000)], "a": [(100, 0)]}, None, 0, {"a": (10.0, 10)}),
    # 21: its second: ten do 90 each.
    ([("source", "a")], {"source": [(0, 1000)], "a": [(90, 0)] * 10}, None, 0,
     {"a": (1000 / 90, 12)}),
    # 22: its third: twelve do 88 each; 1000 / 88 = 11.36: it stays.
    ([("source", "a")], {"source": [(0, 1000)], "a": [(88, 0)] * 12}, None, 0,
     {"a": (1000 / 88, 12)}),
]  # fmt: skip


@pytest.mark.parametrize("step", range(len(STEPS)))
def test_it_follows_the_table(step):
    topology, rates, source_rates, factor, expected = STEPS[step]
    found = ds2(topology, rates, source_rates, factor)
    assert {name: instances for name, (_, instances) in found.items()} == {
        name: instances for name, (_, instances) in expected.items()
    }
    for name, (need, _) in expected.items():
        assert found[name][0] == pytest.approx(need, rel=1e-12), name


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([("a", "b"), ("b", "a")], {"a": [(1, 1)], "b": [(1, 1)]}), "is a cycle"),
        (([("a", "b")], {"a": [(0, 1)]}), "rates: 'b' has no instance"),
        (([("a", "b")], {"a": [(0, -1)], "b": [(1, 1)]}), "rates['a'][0]: the true output rate -1"),
        (([("a", "b")], {"a": [(0, 1)], "b": [(math.nan, 1)]}), "the true processing rate nan"),
        (([("a", "b")], {"a": [(0, 1)], "b": [(0, 0)]}), "rates['b']: 0 records/s, while 1"),
        (
            ([("a", "b")], {"a": [(0, 1)], "b": [(1, 1)]}, {"b": 2}),
            "source_rates: 'b' is not a source",
        ),
        (([("a", "b")], {"a": [(0, 1)], "b": [(1, 1)]}, {"a": math.inf}), "source_rates['a']: inf"),
        (([("a", "b")], {"a": [(0, 1)], "b": [(1, 1)]}, None, -0.1), "factor: -0.1"),
    ],
)
def test_it_refuses_with_place_and_value(arguments, text):
    with pytest.raises(ValueError) as error:
        ds2(*arguments)
    assert text in str(error.value)


RATE = st.integers(1, 1000)


@given(
    true=st.lists(RATE, min_size=1, max_size=5),
    outputs=st.lists(RATE, min_size=5, max_size=5),
    now=st.lists(st.integers(1, 30), min_size=5, max_size=5),
    source=RATE,
)
def test_where_rates_scale_linearly_the_second_pass_changes_nothing(true, outputs, now, source):
    names = [f"op{number}" for number in range(len(true))]
    topology = list(zip(["source", *names], names, strict=False))

    def rates(instances):
        own = {
            name: [(rate, output)] * instances[name]
            for name, rate, output in zip(names, true, outputs, strict=False)
        }
        return {"source": [(0, source)], **own}

    first = ds2(topology, rates(dict(zip(names, now, strict=False))))
    chosen = {name: instances for name, (_, instances) in first.items()}
    again = ds2(topology, rates(chosen))
    assert {name: instances for name, (_, instances) in again.items()} == chosen
    target = source
    for name, rate, output in zip(names, true, outputs, strict=False):
        # enough, and one fewer is not
        assert chosen[name] * rate >= target * (1 - 1e-9)
        assert (chosen[name] - 1) * rate < target * (1 + 1e-9)
        target = target * output / rate
