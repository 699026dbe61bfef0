"""Local pools of jobs that start and stop, by hand; and never more segments than there are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.layout.buffers import Allocation
from flowcontrol.layout.physical_graph import demands_by_job
from flowcontrol.protocol.network import pool_rules
from flowcontrol.protocol.network.pools import LocalBufferPool
from flowcontrol.scenario import Scenario, parse_scenario


def request(pool: LocalBufferPool) -> bool:
    """Take a segment as a running task does."""
    return pool_rules.request_segment(pool.state, pool.network.state) == 1


def recycle(pool: LocalBufferPool) -> None:
    """Give a segment back, for the pool or the others."""
    pool_rules.recycle_segment(pool.state, pool.network.state)
    pool.network.serve()


BUFFERS = "taskmanager.network.numberOfBuffers"
TIMEOUT = "taskmanager.network.memory.buffers-request-timeout"


def jobs(buffers: int, managers: int, count: int = 3, **options: Any) -> Scenario:
    """Jobs of one channel each; on two task managers it is remote."""
    listed = [
        {
            "name": f"job{k}",
            "stages": [
                {"name": f"from{k}", "emit_rate": 1, "placement": [0]},
                {"name": f"to{k}", "placement": [managers - 1]},
            ],
            "edges": [{"from": f"from{k}", "to": f"to{k}"}],
        }
        for k in range(count)
    ]
    return parse_scenario(
        {
            "schema": 1,
            "name": "jobs",
            "duration_s": 1,
            "cluster": {"task_managers": managers},
            "options": {BUFFERS: buffers, **options},
            "jobs": listed,
        }
    )


def sizes(allocation: Allocation) -> list[tuple[int, ...]]:
    """Sizes of all pools: of each job its partition's and its gate's."""
    return [tuple(holding.pool.size for holding in held) for held in allocation.held.values()]


# A partition takes 2 to 10, a gate 1 to 8 and, if its channel is remote, 2 exclusive. What
# nobody requires is shared out by capacity, running sums rounded down (reference section 5.1).
BY_HAND = [
    # managers, buffers; sizes with one job, with two, with the first alone again
    (1, 21, [(10, 8)], [(6, 4), (6, 5)]),  # 15 over 8, 7, 8, 7: 4, 7 - 4, 11 - 7, 15 - 11
    (1, 36, [(10, 8)], [(10, 8), (10, 8)]),  # all at their maximum
    (1, 35, [(10, 8)], [(9, 8), (10, 8)]),  # 29 over 30: 7, 14 - 7, 22 - 14, 29 - 22
    (1, 6, [(3, 3)], [(2, 1), (2, 1)]),  # 3 over 3, 3: 1, 2; then nothing is left
    (1, 7, [(4, 3)], [(2, 1), (2, 2)]),  # 4 over 4, 4: 2, 2; then 1 over 1, 1, 1, 1: 0, 0, 0, 1
    (2, 12, [(10, 8)], [(6, 4), (6, 4)]),  # 8 over 8, 8; 6 over 6, 6
    (2, 6, [(6, 4)], [(3, 1), (3, 1)]),  # 2 over 2, 2; the gates and 4 exclusive take all 6
]


@pytest.mark.parametrize(("managers", "buffers", "one", "two"), BY_HAND)
def test_a_second_job_shares_and_gives_back(
    managers: int, buffers: int, one: list[tuple[int, int]], two: list[tuple[int, int]]
) -> None:
    scenario = jobs(buffers, managers)
    demands = demands_by_job(scenario)
    allocation = Allocation(scenario.options, managers)
    assert allocation.begin("job0", demands["job0"]) == ""
    assert sizes(allocation) == one
    assert allocation.begin("job1", demands["job1"]) == ""
    assert sizes(allocation) == two
    allocation.end("job1")
    assert sizes(allocation) == one
    allocation.end("job0")
    assert [network.free for network in allocation.networks] == [buffers] * managers


TOO_FEW = [
    # managers, buffers; who cannot have what; required, available
    (1, 2, "to0 subtask 0, task manager 0", 1, 0),
    (1, 7, "from2 subtask 0, task manager 0", 2, 1),
    (1, 8, "to2 subtask 0, task manager 0", 1, 0),
    (2, 8, "to2 subtask 0, task manager 1", 2, 1),
]


@pytest.mark.parametrize(("managers", "buffers", "who", "required", "available"), TOO_FEW)
def test_the_first_job_that_does_not_fit_holds_nothing_and_the_others_keep_theirs(
    managers: int, buffers: int, who: str, required: int, available: int
) -> None:
    scenario = jobs(buffers, managers)
    demands = demands_by_job(scenario)
    allocation = Allocation(scenario.options, managers)
    for name in demands:
        before = sizes(allocation)
        free = [network.free for network in allocation.networks]
        text = allocation.begin(name, demands[name])
        if text:
            break
    assert text.startswith(
        f"{who}: Insufficient number of network buffers: required {required}, but only "
        f"{available} available. The total number of network buffers is currently set to "
        f"{buffers} of 32768 bytes each."
    )
    assert name not in allocation.held
    assert sizes(allocation) == before
    assert [network.free for network in allocation.networks] == free


def test_exclusive_buffers_wait_for_segments_that_are_still_used() -> None:
    """12 buffers; the first job's gate has 8 + 2 of them and uses all 8 when the second starts."""
    scenario = jobs(12, 2)
    demands = demands_by_job(scenario)
    allocation = Allocation(scenario.options, 2)
    allocation.begin("job0", demands["job0"])
    assert allocation.fetch("job0") == 0
    gate = allocation.held["job0"][1].pool
    assert all(request(gate) for _ in range(8))
    assert allocation.networks[1].free == 2
    assert allocation.begin("job1", demands["job1"]) == ""
    # One was pre-fetched for its pool, which is reserved; one of the two exclusive ones is there.
    assert allocation.fetch("job1") == 1
    assert (gate.size, gate.state.in_use) == (4, 8)
    recycle(gate)
    assert allocation.fetch("job1") == 0
    assert gate.state.in_use == 7
    allocation.end("job0")
    assert allocation.held["job1"][1].taken == 2
    assert allocation.networks[1].free == 12 - 2 - 1


def test_a_job_that_ends_while_it_waits_keeps_no_promise() -> None:
    scenario = jobs(12, 2)
    demands = demands_by_job(scenario)
    allocation = Allocation(scenario.options, 2)
    allocation.begin("job0", demands["job0"])
    allocation.fetch("job0")
    gate = allocation.held["job0"][1].pool
    assert all(request(gate) for _ in range(8))
    allocation.begin("job1", demands["job1"])
    allocation.fetch("job1")
    allocation.end("job1")
    assert allocation.networks[1].state.unpooled == 2
    assert sizes(allocation) == [(10, 8)]
    assert allocation.networks[1].free == 12 - 8 - 2


def test_the_text_of_a_timeout_has_flinks_figures() -> None:
    scenario = jobs(12, 2, **{TIMEOUT: "5 s"})
    text = Allocation(scenario.options, 2).timeout_text()
    assert text.startswith("Timeout triggered when requesting exclusive buffers: The total number")
    assert "currently set to 12 of 32768 bytes each" in text
    assert "by setting the configuration keys 'taskmanager.memory.network.fraction', '" in text
    assert text.endswith(f"the timeout which is 5000ms by setting the key '{TIMEOUT}'.")


STEP = st.tuples(st.sampled_from(["begin", "end", "take", "recycle", "fetch"]), st.integers(0, 3),
                 st.integers(0, 9))  # fmt: skip


@given(st.integers(1, 40), st.integers(1, 2), st.lists(STEP, max_size=40))
def test_never_more_segments_are_out_than_there_are(
    buffers: int, managers: int, steps: list[tuple[str, int, int]]
) -> None:
    scenario = jobs(buffers, managers, count=4)
    demands = demands_by_job(scenario)
    allocation = Allocation(scenario.options, managers, max_overdraft=5)
    out: list[tuple[str, LocalBufferPool]] = []
    for what, number, count in steps:
        name = f"job{number}"
        if what == "begin" and name not in allocation.held:
            allocation.begin(name, demands[name])
        elif what == "recycle" and out:
            recycle(out.pop(count % len(out))[1])
        elif name in allocation.held:
            if what == "end":
                allocation.end(name)
                out = [item for item in out if item[0] != name]
            elif what == "take":
                pools = [holding.pool for holding in allocation.held[name]]
                pool = pools[count % len(pools)]
                out += [(name, pool) for _ in range(count) if request(pool)]
            else:
                allocation.fetch(name)
        for manager, network in enumerate(allocation.networks):
            held = [h for held in allocation.held.values() for h in held]
            own = [h for h in held if h.demand.manager == manager]
            handed_out = sum(h.pool.state.in_use + h.pool.free + h.taken for h in own)
            assert network.free >= 0
            assert handed_out + network.free == buffers
            promised = sum(h.pool.size + h.taken + h.promised for h in own)
            assert promised <= buffers
