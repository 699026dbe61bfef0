"""What a search is for, as it is typed: figures, directions, limits with units."""

from __future__ import annotations

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.tune.goals import read_goals
from flowcontrol.layout.plan import network_memory, slots_used
from flowcontrol.run.plan import plan
from flowcontrol.scenario.given import as_scenario

LIMITS = [
    ("sink.latency_p99_ms<=200", "sink.latency_p99_ms", True, 200),
    ("latency_p99_ms <= 200", "sink.latency_p99_ms", True, 200),
    ("sink.latency_p99_ms<=0.2s", "sink.latency_p99_ms", True, 200),
    ("sink.latency_p99_ms<=200 MS", "sink.latency_p99_ms", True, 200),
    ("sink.latency_p99_ms<=200000us", None, "is in ms, not in 'us'", "200ms"),
    ("sink.latency_p99_ms<=200000µs", "sink.latency_p99_ms", True, 200),
    ("memory<=4mb", "memory", True, 4 * 1024 * 1024),
    ("memory<=4096", "memory", True, 4096),
    ("memory<=1e6 bytes", "memory", True, 1e6),
    ("sink.rate_in>=.5e3", "sink.rate_in", False, 500),
    ("sink.rate_in>=500 records/s", "sink.rate_in", False, 500),
    ("map.busy_ms_per_s<=80%", "map.busy_ms_per_s", True, 800),
    ("slots<=3", "slots", True, 3),
    ("sink.latency_p99_ms<=2mb", None, "is in ms, not in 'mb'", "200ms"),
    ("memory<=200ms", None, "is in bytes, not in 'ms'", "4mb"),
    ("sink.rate_in>=5 records", None, "is in records/s, not in 'records'", "100 records/s"),
    ("sink.latency_p99_ms<200", None, "< is not an operator", "FIGURE<=LIMIT"),
    ("sink.latency_p99_ms==200", None, "== is not an operator", "FIGURE<=LIMIT"),
    ("sink.latency_p99_ms=<200", None, "=< is not an operator", "FIGURE<=LIMIT"),
    ("sink.latency_p99_ms", None, "FIGURE<=LIMIT", "FIGURE>=LIMIT"),
    ("sink.latency_p99_ms<=", None, "'' is not a limit", "200ms"),
    ("sink.latency_p99_ms<=fast", None, "'fast' is not a limit", "200ms"),
    ("sink.latency_p99_ms<=nan", None, "not a finite number", "200ms"),
    ("sink.latency_p99_ms<=inf", None, "not a finite number", "200ms"),
    ("sink.latency_p99_ms<=-1", None, "can never hold", "at least 0"),
    ("sink.rate_in>=0", None, "holds always", "leave it out"),
    ("map.busy_ms_per_s<=1000", None, "holds always", "at most 1000 ms/s"),
    ("map.busy_ms_per_s<=101%", None, "holds always", "at most 1000 ms/s"),
    ("map.busy_ms_per_s>=1001", None, "can never hold", "at most 1000 ms/s"),
    ("sink.latency<=2", None, "unknown column 'latency'", "latency_mean_ms"),
    ("snik.rate_in>=2", None, "unknown stage 'snik'", "did you mean 'sink'"),
    ("memry<=2", None, "unknown figure 'memry'", "did you mean 'memory'"),
    ("checkpoint_e2e_p50_ms<=2", None, "takes no checkpoints", "checkpointing.interval"),
    ("max_lag_s<=2", None, "no source reads a log", "arrival_rate"),
]


@pytest.mark.parametrize(("text", "name", "third", "last"), LIMITS, ids=lambda one: str(one)[:40])
def test_a_limit_is_read_in_the_unit_of_its_figure_or_refused(chain, text, name, third, last):
    if name is None:
        with pytest.raises(ScenarioError) as caught:
            read_goals([("minimise", "memory")], [text], as_scenario(chain))
        said = str(caught.value)
        assert "--subject-to" in said
        assert third in said
        assert last in said
        return
    (constraint,) = read_goals([("minimise", "memory")], [text], as_scenario(chain)).constraints
    assert constraint.measure.name == name
    assert constraint.is_most is third
    assert constraint.limit == pytest.approx(last)


@pytest.mark.parametrize(
    ("aims", "limits", "said"),
    [
        ([], [], "nothing to search for"),
        ([("minimise", "memory"), ("minimise", "memory")], [], "named twice"),
        (
            [("minimise", "memory"), ("maximise", "sink.rate_in"), ("minimise", "slots")],
            [],
            "3 figures",
        ),
        ([("minimise", "memory")], ["sink.rate_in>=5", "sink.rate_in<=4"], "can never hold tog"),
        ([("minimise", "throughput")], [], "unknown figure 'throughput'"),
        ([("reduce", "memory")], [], "minimise or maximise"),
    ],
    ids=lambda one: str(one)[:30],
)
def test_goals_that_contradict_each_other_are_refused(chain, aims, limits, said):
    with pytest.raises(ScenarioError) as caught:
        read_goals(aims, limits, as_scenario(chain))
    assert said in str(caught.value)


def test_a_miss_is_a_share_of_the_limit(chain):
    goals = read_goals(
        [("minimise", "memory")],
        ["sink.latency_p99_ms<=200", "sink.rate_in>=400", "sink.records_in<=0"],
        as_scenario(chain),
    )
    latency, rate, none = goals.constraints
    assert [latency.miss(value) for value in (100, 200, 250)] == [0, 0, 0.25]
    assert [rate.miss(value) for value in (500, 400, 300)] == [0, 0, 0.25]
    assert none.miss(3) == 3
    assert latency.miss(None) == 10


def test_memory_is_what_the_plan_grants_on_all_task_managers(chain):
    """By hand: two edges of one remote channel each, 2 exclusive and 8 floating buffers of 8 KiB.

    A gate has 2 + 8; a partition of one subpartition 2 x 1 + 8 at most. Two edges: 40 buffers.
    """
    chain["cluster"] = {"task_managers": 3}
    scenario = as_scenario(chain)
    assert network_memory(scenario) == 40 * 8192
    granted = plan(chain).to_pandas("grants")["granted"].sum()
    assert network_memory(scenario) == granted * scenario.options.segment_bytes


def test_memory_is_less_where_a_task_manager_has_less(chain):
    chain["cluster"] = {"task_managers": 3}
    chain["options"]["taskmanager.network.numberOfBuffers"] = 12
    # The middle one holds a gate and a partition and has 12; the outer ones need 10 each.
    assert network_memory(as_scenario(chain)) == (10 + 12 + 10) * 8192


def test_memory_of_a_system_without_buffers_is_refused(chain):
    chain["system"] = "heron"
    with pytest.raises(ScenarioError, match="no network buffers"):
        read_goals([("minimise", "memory")], [], as_scenario(chain))


def test_slots_hold_a_subtask_of_each_stage(chain):
    chain["cluster"] = {"task_managers": 2}
    chain["stages"][1] |= {"parallelism": 4, "placement": [0, 0, 0, 1]}
    chain["stages"][0]["placement"] = [1]
    chain["stages"][2]["placement"] = [0]
    assert slots_used(as_scenario(chain)) == 4
