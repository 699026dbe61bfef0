"""The end of a partition, by hand: queued, sent without credit, taken, passed on."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import Replayed
from flowcontrol.protocol.network.events import END_BYTES
from flowcontrol.state.network import Message
from flowcontrol.state.queues import DATA, END_OF_PARTITION
from flowcontrol.trace.channel_state import BufferKind, ChannelId
from flowcontrol.trace.round_state import RoundState
from staged_runs import resumed, run_staged

FIRST, SECOND = ChannelId("source->map", 0, 0), ChannelId("map->sink", 0, 0)


def chain(jobs: ModuleType, emits: Any, served: Any = None, **options: Any) -> Job:
    """A source, a stage without a rate, a sink; a record is a whole buffer."""
    stages = [
        jobs.source(emits, record_bytes=4096),
        {"name": "map", "record_bytes": 4096},
        jobs.sink(served),
    ]
    edges = [("source", "map", "forward"), ("map", "sink", "forward")]
    made: Job = jobs.job(stages, edges, options, duration_s=2)
    return made


def once(rate: float) -> list[dict[str, float]]:
    """A rate during the first round."""
    return [{"at_s": 0, "rate": rate}, {"at_s": 0.1, "rate": 0}]


def states(job: Job, **keys: Any) -> list[RoundState]:
    return [batch.state for batch in run_staged(job, **keys)]


def sent(state: RoundState, name: ChannelId) -> list[int]:
    """Kinds of the messages of a channel that are under way."""
    return [one.message.kind for one in state.channel(*name)[0].under_way]


def finished(found: list[RoundState], stage: str) -> int:
    """Round in which a task finished."""
    return next(s.number for s in found if s.task(stage).state.is_finished)


def test_an_end_takes_a_round_a_hop(jobs: ModuleType) -> None:
    """Without a flusher the last buffer of each channel goes because the end stands behind it."""
    found = states(chain(jobs, once(20), **{jobs.FLUSH: -1}))
    assert [sent(state, FIRST) for state in found[:3]] == [[DATA, DATA, END_OF_PARTITION], [], []]
    assert [sent(state, SECOND) for state in found[:3]] == [[], [DATA, DATA, END_OF_PARTITION], []]
    assert [finished(found, stage) for stage in ("source", "map", "sink")] == [0, 1, 2]
    assert [state.task("map").state.open_inputs for state in found[:2]] == [1, 0]
    last = found[0].channel(*FIRST)[0].under_way[-1].message
    assert last == Message(END_OF_PARTITION, nbytes=END_BYTES)
    for name in (FIRST, SECOND):  # the cursors count data
        out, into = found[-1].channel(*name)
        assert (out.state.sent, into.state.arrived, into.state.consumed) == (2, 2, 2)
        assert (out.state.is_finished, out.state.events, out.state.buffers) == (1, 0, 0)
    pools = [part.pool.in_use for task in found[-1].tasks for part in task.partitions]
    assert pools == [0, 0]


def test_an_end_needs_no_credit_and_stands_behind_the_data(jobs: ModuleType) -> None:
    """Two credits for three messages; with two for two, the end goes along."""
    options = {jobs.FLUSH: -1, jobs.FLOATING: 1}
    stages = [jobs.source(once(30), record_bytes=4096), jobs.sink(0)]
    held = states(jobs.job(stages, [("source", "sink", "forward")], options))
    out, into = held[0].channel("source->sink")
    assert [one.message.kind for one in out.under_way] == [DATA, DATA]
    assert [message.kind for message in out.finished] == [DATA, END_OF_PARTITION]
    assert (out.backlog, out.ready, out.credit) == (1, 1, 0)
    # A floating buffer comes for the backlog; the end follows the data, though the sink stands.
    sends = [[one.message.kind for one in s.channel("source->sink")[0].under_way] for s in held]
    assert sends[1:4] == [[], [DATA, END_OF_PARTITION], []]
    into = held[3].channel("source->sink")[1]
    assert [(one.kind, one.buffer) for one in into.queue] == [
        (DATA, BufferKind.EXCLUSIVE),
        (DATA, BufferKind.FLOATING),
        (DATA, BufferKind.EXCLUSIVE),
        (END_OF_PARTITION, BufferKind.NONE),
    ]
    assert held[3].to_dict()["tasks"][1]["gates"][0]["channels"][0]["queue"][3] == {
        "kind": "end_of_partition", "records": 0, "nbytes": END_BYTES, "backlog": 0,
        "checkpoint": 0, "created": 0, "marks": 0, "buffer": "none",
    }  # fmt: skip
    assert held[-1].task("sink").state.is_finished == 0
    stages = [jobs.source(once(20), record_bytes=4096), jobs.sink(0)]
    passed = states(jobs.job(stages, [("source", "sink", "forward")], options))
    out = passed[0].channel("source->sink")[0]
    assert ([one.message.kind for one in out.under_way], out.credit) == (
        [DATA, DATA, END_OF_PARTITION],
        0,
    )


def test_an_open_buffer_that_was_sent_whole_is_skipped(jobs: ModuleType) -> None:
    """Its slice took the credit: the end waits behind the empty buffer until there is some."""
    emits = [{"at_s": at_s, "rate": rate} for at_s, rate in ((0, 10), (0.1, 1), (0.2, 0))]
    options = {jobs.FLUSH: 0, jobs.EXCLUSIVE: 1, jobs.FLOATING: 1}
    slow = [{"at_s": 0, "rate": 0}, {"at_s": 0.5, "rate": 10}]
    stages = [jobs.source(emits), jobs.sink(slow)]
    found = states(jobs.job(stages, [("source", "sink", "forward")], options))
    outs = [state.channel("source->sink")[0] for state in found]
    assert [one.message.kind for one in outs[0].under_way] == [DATA]
    assert finished(found, "source") == 1
    empty = next(i for i, out in enumerate(outs) if out.state.empty)
    assert (outs[empty].ready, outs[empty].backlog, outs[empty].credit) == (0, 1, 0)
    gone = next(i for i, out in enumerate(outs) if out.under_way and i > empty)
    assert [one.message.kind for one in outs[gone].under_way] == [END_OF_PARTITION]
    assert (outs[gone].state.empty, outs[gone].state.buffers) == (0, 0)


def test_a_task_ends_when_all_its_inputs_have(jobs: ModuleType) -> None:
    stages = [
        {"name": "a", "emit_rate": once(20)},
        {"name": "b", "emit_rate": [{"at_s": 0, "rate": 20}, {"at_s": 0.5, "rate": 0}]},
        {"name": "map", "record_bytes": 100, "service_rate": 30},
        jobs.sink(None),
    ]
    edges = [("a", "map", "forward"), ("b", "map", "forward"), ("map", "sink", "forward")]
    found = states(jobs.job(stages, edges))
    left = [state.task("map").state.open_inputs for state in found]
    assert set(left) == {2, 1, 0}
    assert [finished(found, name) for name in ("a", "b")] == [0, 4]
    done = finished(found, "map")
    assert left.index(0) == done == 5
    state = found[done].task("map").state
    assert (state.queued, state.left, state.taken) == (0, 0, 12)
    assert finished(found, "sink") == done + 1


def test_a_source_ends_with_its_rows(jobs: ModuleType) -> None:
    """A replaying source has so many; its rate goes on."""
    job = jobs.job([jobs.source(20), jobs.sink(None)], [("source", "sink", "forward")])
    found = states(job, replayed=Replayed(limits={("source", 0): 7}))
    done = finished(found, "source")
    assert [found[i].task("source").state.taken for i in (done - 1, done)] == [6, 7]
    assert found[-1].task("sink").state.taken == 7


def test_a_source_that_only_pauses_does_not_end(jobs: ModuleType) -> None:
    emits = [{"at_s": 0, "rate": 20}, {"at_s": 0.1, "rate": 0}, {"at_s": 100, "rate": 20}]
    found = states(jobs.job([jobs.source(emits), jobs.sink(None)], [("source", "sink", "forward")]))
    assert not any(task.state.is_finished for task in found[-1].tasks)


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_run_goes_on_behind_an_end(jobs: ModuleType, cut: int) -> None:
    """From what any round has published: the event is in one of its queues."""
    job = chain(jobs, once(20), 5)
    whole = list(run_staged(job))
    again = list(resumed(job, cut + 1))
    assert [batch.rows for batch in again] == [batch.rows for batch in whole[cut + 1 :]]
