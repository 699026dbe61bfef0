"""What must balance in the state after any round, worked out from the kernel's rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flowcontrol.layout.graph import JobEdge, JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.state.queues import SPANNING_DATA

Row = dict[str, Any]
State = dict[str, dict[str, list[Row]]]


def violations(job: Job, state: State, rounds: int = 1) -> Iterator[str]:
    """Name what does not balance in a state after so many rounds since the last one looked at."""
    for link in job.links:
        for channel in link.channels:
            ends = (channel.sender, channel.receiver)
            sent, received = (_of(state[link.name][side], ends) for side in ("sender", "receiver"))
            for text in (
                *_records(job, link, state, sent, received),
                *_cursors(sent, received, channel.is_local),
            ):
                yield f"{link.name} {ends[0]}->{ends[1]}: {text}"
        for sender in {channel.sender for channel in link.channels}:
            own = [row for row in state[link.name]["sender"] if row["sender"] == sender]
            for text in _partition(job, link, own):
                yield f"{link.name} sender {sender}: {text}"
        for receiver in {channel.receiver for channel in link.channels}:
            own = [row for row in state[link.name]["receiver"] if row["receiver"] == receiver]
            for text in _gate(job, link, state, own):
                yield f"{link.name} receiver {receiver}: {text}"
    for plan in job.stages:
        for index in range(plan.stage.parallelism if plan.inputs or plan.outputs else 0):
            yield from _task(job, plan, index, task_of(state, plan, index), rounds)


def _of(rows: list[Row], ends: tuple[int, int]) -> Row:
    [found] = [row for row in rows if (row["sender"], row["receiver"]) == ends]
    return found


def task_of(state: State, plan: JobVertex, index: int) -> Row:
    """State of a task: it stands on the first row of each of its links."""
    link, side = (plan.inputs[0], "receiver") if plan.inputs else (plan.outputs[0], "sender")
    rows = [row for row in state[link.name][side] if row[side] == index]
    found: Row = rows[0]["task_state"]
    return found


def in_flight(job: Job, link: JobEdge, state: State, sent: Row, received: Row) -> int:
    """Records of a channel on their way, wherever they are, the one being processed left out."""
    out, into = sent["channel_state"], received["channel_state"]
    at_sender = sum(one["records"] for one in out["queue"]) + out["channel"]["tail"]
    on_the_wire = sum(one["records"] for one in out["messages"])
    return (
        _pending(job, link, state, sent)
        + at_sender
        + on_the_wire
        + sum(one["records"] for one in into["queue"])
        + _aside(job, link, state, received)
        + _in_hand(job, link, state, received)
    )


def _pending(job: Job, link: JobEdge, state: State, sent: Row) -> int:
    """Records that the sender's task has routed and not written whole."""
    plan = job.stage(link.edge.sender)
    parts = task_of(state, plan, sent["sender"])["partitions"]
    pending = parts[plan.outputs.index(link)]["pending"]
    own = [channel.receiver for channel in link.outgoing(sent["sender"])]
    if link.edge.partitioner == "broadcast":
        return len(pending)
    return int(pending.count(own.index(sent["receiver"])))


def _in_hand(job: Job, link: JobEdge, state: State, received: Row) -> int:
    """Records of the buffer that the receiver's task reads, if it is of this channel."""
    plan = job.stage(link.edge.receiver)
    task = task_of(state, plan, received["receiver"])["task"]
    own = [channel.sender for channel in link.incoming(received["receiver"])]
    place = (plan.inputs.index(link), own.index(received["sender"]))
    return int(task["left"]) if (task["gate"], task["channel"]) == place else 0


def _aside(job: Job, link: JobEdge, state: State, received: Row) -> int:
    """Records of a channel that its receiver has put aside behind a barrier."""
    plan = job.stage(link.edge.receiver)
    aside = _aside_state(state, plan, received["receiver"])
    own = [channel.sender for channel in link.incoming(received["receiver"])]
    place = (plan.inputs.index(link), own.index(received["sender"]))
    found = [*aside["behind"], *aside["again"]]
    return sum(one["records"] for one in found if (one["gate"], one["channel"]) == place)


def _aside_state(state: State, plan: JobVertex, index: int) -> Row:
    """What a task has put aside, empty of one that never does."""
    held = task_of(state, plan, index).get("checkpoints", {})
    return held.get("aside", {"behind": [], "again": [], "writing": []})


def _is_local(own: list[Row], one: Row) -> bool:
    """Whether what a disk writes came through a local channel of the gate."""
    return bool(own[one["channel"]]["channel_state"]["local"])


def _records(job: Job, link: JobEdge, state: State, sent: Row, received: Row) -> Iterator[str]:
    """Every record emitted was processed or is in flight."""
    emitted = sent["channel_state"]["routed"]
    processed = received["channel_state"]["channel"]["processed"]
    flying = in_flight(job, link, state, sent, received)
    if emitted != processed + flying:
        yield f"emitted {emitted} is not processed {processed} + in flight {flying}"


def _cursors(sent: Row, received: Row, is_local: bool) -> Iterator[str]:
    cursors = [received["consumed"], sent["sent"], sent["released"], sent["written"]]
    if cursors != sorted(cursors):
        yield f"consumed, sent, released, written are {cursors}: one falls behind the one before"
    under_way = sum(one["kind"] <= SPANNING_DATA for one in sent["channel_state"]["messages"])
    arrived = received["channel_state"]["channel"]["arrived"]
    if sent["sent"] != arrived + under_way:
        yield f"sent {sent['sent']} is not arrived {arrived} + under way {under_way}"
    if is_local:
        return
    if sent["sent"] > received["announced"]:
        yield f"sent {sent['sent']} is more than announced {received['announced']}"
    promised = received["announced"] - received["consumed"]
    if promised != received["exclusive"] + received["floating_held"]:
        yield f"promised {promised} buffers, not {received['exclusive']} exclusive + floating"


def _pool(pool: list[int], segments: list[int]) -> Iterator[str]:
    held = pool["in_use"] + pool["free"] + segments["free"]
    if held != segments["total"] or min(pool["free"], segments["free"]) < 0:
        yield f"a pool holds {held} segments of {segments['total']}: {pool} {segments}"


def _partition(job: Job, link: JobEdge, own: list[Row]) -> Iterator[str]:
    """The buffers in use are those that stand in the queues, and those lent to local consumers."""
    plan = job.stage(link.edge.sender)
    part = own[0]["task_state"]["partitions"][plan.outputs.index(link)]
    yield from _pool(part["pool"], part["segments"])
    used = [
        row["channel_state"]["channel"]["buffers"] + sum(row["channel_state"]["held"])
        for row in own
    ]
    is_shared = link.edge.partitioner == "broadcast"
    if part["pool"]["in_use"] != (max(used) if is_shared else sum(used)):
        yield f"{part['pool']['in_use']} buffers in use, but the channels hold {used}"


def _gate(job: Job, link: JobEdge, state: State, own: list[Row]) -> Iterator[str]:
    """The floating buffers in use are those that the channels hold, and that a disk writes."""
    plan = job.stage(link.edge.receiver)
    gate = own[0]["task_state"]["gates"][plan.inputs.index(link)]
    yield from _pool(gate["pool"], gate["segments"])
    held = sum(row["floating_held"] for row in own if not row["channel_state"]["local"])
    aside, number = _aside_state(state, plan, own[0]["receiver"]), plan.inputs.index(link)
    held += sum(one["gate"] == number and not _is_local(own, one) for one in aside["writing"])
    if gate["pool"]["in_use"] != held:
        yield f"{gate['pool']['in_use']} floating buffers in use, the channels hold {held}"
    waiting = [i for i, row in enumerate(own) if row["channel_state"]["channel"]["is_waiting"]]
    if waiting != sorted(gate["waiting"]):
        yield f"channels {waiting} wait, but in the list are {gate['waiting']}"


def _task(job: Job, plan: JobVertex, index: int, state: Row, rounds: int) -> Iterator[str]:
    times = state["times_us"]
    if sum(times) != rounds * job.round_us or min(times) < 0:
        yield f"{plan.name}/{index}: {times} us are not {rounds} rounds of {job.round_us} us"
