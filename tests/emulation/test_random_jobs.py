"""Random small jobs: every ledger passes the audit, nothing is lost, doubled, stuck or random."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from flowcontrol.emulation import Job, lay_out
from flowcontrol.emulation.rehearsal import RoundRows, rehearse
from flowcontrol.errors import ScenarioError
from flowcontrol.ledger.audit import audit
from flowcontrol.protocol import rounds as r
from flowcontrol.scenario import Scenario, check_clock, parse_scenario

NETMEM = "taskmanager.network.memory."
PARTITIONERS = ("rebalance", "rescale", "shuffle", "hash", "custom", "global", "forward")


@dataclass(frozen=True)
class Shape:
    """What kind of jobs are drawn."""

    rounds: tuple[int, int] = (30, 45)
    is_drained: bool = False
    """Sources stop, and no stage has a rate of its own: everything has to arrive."""


def rates(most: int) -> st.SearchStrategy[Any]:
    """A rate, or one that changes twice, perhaps to nothing for a while."""
    rate = st.integers(0, most) | st.sampled_from([0.5, 3.3, 17.25])
    schedule = st.tuples(rate, rate, rate).map(
        lambda x: [{"at_s": 0.7 * i, "rate": rate} for i, rate in enumerate(x)]
    )
    return rate | schedule


@st.composite
def stages(draw: Any, shape: Shape) -> list[dict[str, Any]]:
    """A source, up to two stages in between that may be sources as well, a sink."""
    managers = draw(st.sampled_from([3, 2, 1]))
    found = []
    for i in range(draw(st.integers(2, 4))):
        parallelism = draw(st.integers(1, 3))
        place = st.lists(st.integers(0, managers - 1), min_size=parallelism, max_size=parallelism)
        found.append(
            {
                "name": f"s{i}",
                "parallelism": parallelism,
                "record_bytes": draw(st.integers(1, 12_000) | st.sampled_from([4096, 4095, 8192])),
                "placement": draw(place),
            }
        )
    return found


@st.composite
def edges(draw: Any, drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every stage but the first takes from some before it, or is a source for the last."""
    pairs = []
    for i in range(1, len(drawn)):
        some = st.lists(st.integers(0, i - 1), min_size=1, max_size=2, unique=True)
        is_last = i == len(drawn) - 1
        pairs += [(j, i) for j in sorted(draw(some if is_last else some | st.just([])))]
    unused = set(range(len(drawn) - 1)) - {j for j, _ in pairs}
    pairs += [(j, len(drawn) - 1) for j in sorted(unused)]
    return [draw(edge(drawn[j], drawn[i])) for j, i in pairs]


@st.composite
def edge(draw: Any, sender: dict[str, Any], receiver: dict[str, Any]) -> dict[str, Any]:
    equal = sender["parallelism"] == receiver["parallelism"]
    kinds = ("forward", *PARTITIONERS, "forward") if equal else PARTITIONERS[:-1]
    kind = draw(st.sampled_from(kinds))
    found = {"from": sender["name"], "to": receiver["name"], "partitioner": kind}
    shares = st.lists(
        st.sampled_from([0, 1, 1, 5, 0.3]),
        min_size=receiver["parallelism"],
        max_size=receiver["parallelism"],
    ).filter(any)
    if kind == "custom" or (kind == "hash" and draw(st.booleans())):
        found["channel_weights"] = draw(shares)
    elif kind == "hash":
        keys = st.dictionaries(st.text("abcd", min_size=1, max_size=2), st.integers(1, 5))
        found["key_weights"] = draw(keys.filter(bool))
    return found


@st.composite
def scenarios(draw: Any, shape: Shape) -> Scenario:
    """A scenario that the live clock accepts."""
    drawn = draw(stages(shape))
    linked = draw(edges(drawn))
    receivers, senders = {e["to"] for e in linked}, {e["from"] for e in linked}
    for stage in drawn:
        if stage["name"] not in receivers:
            rate = draw(rates(60 if shape.is_drained else 600))
            stop = [{"at_s": 0, "rate": rate}, {"at_s": 1, "rate": 0}]
            stage["emit_rate"] = stop if shape.is_drained and not isinstance(rate, list) else rate
            if shape.is_drained and isinstance(rate, list):
                stage["emit_rate"][-1]["rate"] = 0
        elif not shape.is_drained and draw(st.booleans()):
            stage["service_rate"] = draw(rates(400))
        if stage["name"] in receivers & senders:
            stage["selectivity"] = draw(st.sampled_from([1, 1, 0, 0.5, 0.3, 2, 1.5]))
    interval = draw(st.sampled_from([-1, 0, "100ms", "250ms"]))
    options = {
        "taskmanager.memory.segment-size": "4kb",
        "execution.buffer-timeout.interval": interval,
        NETMEM + "buffers-per-channel": draw(st.integers(1, 3)),
        NETMEM + "floating-buffers-per-gate": draw(st.integers(1, 8)),
        NETMEM + "max-buffers-per-channel": draw(st.integers(2 if shape.is_drained else 1, 10)),
        NETMEM + "max-overdraft-buffers-per-gate": draw(st.integers(0, 5)),
        "taskmanager.network.numberOfBuffers": draw(st.sampled_from([25, 40, 60, 2048])),
    }
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "random",
            "duration_s": draw(st.integers(*shape.rounds)) / 10,
            "round_ms": 100,
            "seed": draw(st.integers(0, 3)),
            "cluster": {"task_managers": 3},
            "options": options,
            "stages": drawn,
            "edges": linked,
        }
    )
    assert check_clock(scenario, "live") == []
    return scenario


def laid_out(scenario: Scenario) -> Job:
    try:
        return lay_out(scenario)
    except ScenarioError as error:
        assert "Insufficient number of network buffers" in str(error)
        assume(False)
        raise


def total(rounds: list[RoundRows], edge: str, side: str, channel: tuple[int, int]) -> int:
    return sum(
        row["rows"]
        for batch in rounds
        for row in batch.rows[edge][side]
        if (row["sender"], row["receiver"]) == channel
    )


def waiting(rounds: list[RoundRows], edge: str, channel: tuple[int, int]) -> int:
    """Count the records of a channel on their way: at the sender, on the wire, at the receiver."""
    own = {
        side: json.loads(row["channel_state"])
        for side in ("sender", "receiver")
        for row in rounds[-1].rows[edge][side]
        if (row["sender"], row["receiver"]) == channel
    }
    sender, receiver = own["sender"], own["receiver"]
    at_sender = sum(sender["records"]) + sender["row"][r.OUT_TAIL]
    on_the_wire = sum(records for records, _ in sender["messages"])
    return at_sender + on_the_wire + sum(receiver["records"])


def in_hand(rounds: list[RoundRows], job: Job, edge: str, channel: tuple[int, int]) -> int:
    """Count the records of the buffer that the receiver's task reads, and of a pending write."""
    [link] = [link for link in job.links if link.name == edge]
    sender, receiver = channel
    plan = job.stage(link.edge.receiver)
    rows = rounds[-1].rows
    task = _task(rows[plan.inputs[0].name]["receiver"], "receiver", receiver)
    number = plan.inputs.index(link)
    place = [c.sender for c in link.incoming(receiver)].index(sender)
    is_read = (task["task"][r.TASK_GATE], task["task"][r.TASK_CHANNEL]) == (number, place)
    found = task["task"][r.TASK_LEFT] if is_read else 0
    plan = job.stage(link.edge.sender)
    task = _task(rows[edge]["sender"], "sender", sender)
    pending = task["partitions"][plan.outputs.index(link)]["pending"]
    own = [c.receiver for c in link.outgoing(sender)].index(receiver)
    return found + pending.count(own)


def _task(rows: list[dict[str, Any]], side: str, subtask: int) -> dict[str, Any]:
    [text] = [r["task_state"] for r in rows if r[side] == subtask and r["task_state"]]
    found: dict[str, Any] = json.loads(text)
    return found


@given(data=st.data())
def test_a_random_job_keeps_every_rule_and_goes_on_after_any_round(
    jobs: ModuleType, data: Any
) -> None:
    """One run, all that must be true of it; and the same again from the start or a snapshot."""
    job = laid_out(data.draw(scenarios(Shape())))
    rounds = list(rehearse(job))
    assert len(rounds) == job.rounds
    for link in job.links:
        assert audit(jobs.table(jobs.ledger_rows(rounds, link.name))) is None
        for channel in link.channels:
            check_conservation(rounds, job, link.name, (channel.sender, channel.receiver))
        for batch in rounds:
            for row in batch.rows[link.name]["receiver"]:
                check_times(row)
                check_buffers(row)
    stop = data.draw(st.integers(-1, job.rounds - 1))
    after = rounds[stop] if stop >= 0 else None
    assert list(rehearse(job, after=after)) == rounds[stop + 1 :]


def check_conservation(
    rounds: list[RoundRows], job: Job, edge: str, channel: tuple[int, int]
) -> None:
    """Every record routed was taken up or is on its way."""
    taken = total(rounds, edge, "receiver", channel)
    left = waiting(rounds, edge, channel) + in_hand(rounds, job, edge, channel)
    assert taken + left == total(rounds, edge, "sender", channel)


def check_times(row: dict[str, Any]) -> None:
    """A round's time is shared out whole."""
    if row["task_state"] is not None:
        times = json.loads(row["task_state"])["times_us"]
        assert min(times) >= 0
        assert sum(times) == 100_000


def check_buffers(row: dict[str, Any]) -> None:
    """Stricter than the audit: no buffer of a remote channel is lost, each is credit or in use."""
    if not json.loads(row["channel_state"])["local"]:
        assert row["announced"] - row["consumed"] == row["exclusive"] + row["floating_held"]


@given(data=st.data())
def test_everything_emitted_arrives(data: Any) -> None:
    """No deadlock. Without a flusher a channel withholds its last buffer, open or full."""
    job = laid_out(data.draw(scenarios(Shape(rounds=(3000, 3000), is_drained=True))))
    rounds: list[RoundRows] = []
    for batch in rehearse(job):
        rounds.append(batch)
        if batch.number > 20 and _is_still(rounds):
            break
    assert _is_still(rounds), "still busy long after the sources have stopped"
    withheld = 1 if job.scenario.options.flush_interval_us < 0 else 0
    for link in job.links:
        for row in rounds[-1].rows[link.name]["sender"]:
            ends = (row["sender"], row["receiver"])
            assert in_hand(rounds, job, link.name, ends) == 0
            assert row["backlog"] <= withheld
            if withheld == 0:
                sent = total(rounds, link.name, "sender", ends)
                assert total(rounds, link.name, "receiver", ends) == sent


def _is_still(rounds: list[RoundRows]) -> bool:
    """Whether the last four rounds did nothing: longer than a round trip and a flush."""
    if len(rounds) < 5:
        return False
    last = [_moving(batch) for batch in rounds[-5:]]
    return all(state == last[0] for state in last)


def _moving(batch: RoundRows) -> list[tuple[int, ...]]:
    names = ("sent", "released", "announced", "consumed")
    return [
        tuple(row.get(name, 0) for name in names)
        for sides in batch.rows.values()
        for side in sides.values()
        for row in side
    ]


def kinds_of(job: Job) -> Iterator[str]:
    """Name what is special about a job."""
    yield f"flush {job.scenario.options.flush_interval_us}"
    for link in job.links:
        yield link.edge.partitioner
        yield from (f"local {channel.is_local}" for channel in link.channels)
        if link.record_bytes > job.scenario.options.segment_bytes:
            yield "large records"
    for plan in job.stages:
        if len(plan.inputs) > 1:
            yield "fan-in"
        if len(plan.outputs) > 1:
            yield "fan-out"


def test_random_jobs_are_of_every_kind() -> None:
    """The strategies reach what they are meant to reach, and not just once."""
    seen: Counter[str] = Counter()

    @settings(max_examples=200, derandomize=True, database=None, phases=[Phase.generate])
    @given(data=st.data())
    def look(data: Any) -> None:
        seen.update(set(kinds_of(laid_out(data.draw(scenarios(Shape()))))))

    look()
    kinds = {"fan-in", "fan-out", "local True", "local False", "large records"}
    for kind in {*PARTITIONERS, *kinds, "flush -1", "flush 0", "flush 100000"}:
        assert seen[kind] >= 5, kind


@pytest.mark.parametrize("quota", [1])
def test_a_quota_of_one_stalls_a_channel_that_is_never_full(jobs: ModuleType, quota: int) -> None:
    """As in Flink: the open buffer is at the quota, and only a full one would be recycled."""
    stages = [jobs.source(30), jobs.sink(1000)]
    made = jobs.job(stages, [("source", "sink", "forward")], {jobs.QUOTA: quota})
    rounds = jobs.run(made)
    assert total(rounds, "source->sink", "sender", (0, 0)) == 1
