"""DS2's manager: what is worth a new deployment."""

from __future__ import annotations

import pytest

from flowcontrol.scaling.true_rates import Ds2Policy

EDGES = [("source", "a"), ("a", "b")]


def look(policy, a, b, target=1000, observed=1000, instances=(4, 4)):
    rates = {"source": [(0, target)], "a": [(a, a)] * instances[0], "b": [(b, 0)] * instances[1]}
    return policy.look(rates, {"source": target}, {"source": observed})


def test_one_that_must_grow_is_worth_it_and_brings_the_others_along():
    # a: 1000/240 = 4.17 -> 5; b: 1000/350 = 2.86 -> 3
    assert look(Ds2Policy(EDGES), 240, 350) == {"a": 5, "b": 3}


def test_one_instance_too_many_is_not():
    policy = Ds2Policy(EDGES)
    # 4 and 3: b has one too many
    assert look(policy, 250, 350) == {}
    assert policy.reason == "no operator must grow, or has two instances too many"
    # 4 and 2
    assert look(policy, 250, 600) == {"b": 2}
    assert policy.reason == "b needs 1.67 of 4"


def test_an_operator_keeps_an_instance_without_records():
    assert look(Ds2Policy(EDGES), 250, 250, target=0) == {"a": 1, "b": 1}


def test_the_largest_of_the_last_looks_counts():
    policy = Ds2Policy(EDGES, activation=3)
    assert look(policy, 200, 250) == {}  # 5
    assert policy.reason == "look 1 of 3"
    assert look(policy, 160, 250) == {}  # 7
    assert look(policy, 220, 250) == {"a": 7}
    assert look(policy, 250, 250) == {"a": 7}
    assert look(policy, 250, 250) == {"a": 5}
    assert look(policy, 250, 250) == {}
    policy.restart()
    assert look(policy, 100, 250) == {}


def test_overhead_that_no_rate_shows_makes_all_grow():
    policy = Ds2Policy(EDGES, ratio=1.2)
    # needs are 4 and 4; the source does 800 of 1000: 1.25 times 4 is 5
    assert look(policy, 250, 250, observed=800) == {"a": 5, "b": 5}
    assert policy.reason.endswith("sources are slower by 1.25")
    # not more than the ratio
    assert look(policy, 250, 250, observed=1000 / 1.2) == {}
    # whoever must grow does that first
    assert look(policy, 240, 250, observed=500) == {"a": 5}
    # without a ratio, never
    assert look(Ds2Policy(EDGES), 250, 250, observed=1) == {}


def test_it_refuses_as_the_pass_does():
    with pytest.raises(ValueError, match="nothing was measured"):
        look(Ds2Policy(EDGES), 250, 0)
