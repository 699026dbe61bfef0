"""``data_trace``: the messages of one channel, by hand, and a gap in their sequence numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flowcontrol.deployment import data_trace
from flowcontrol.deployment.traces import check_sequence
from flowcontrol.errors import ProtocolError, RunError
from flowcontrol.results.run import Run
from flowcontrol.scenario import parse_scenario
from flowcontrol.trace.messages import Message
from flowcontrol.virtual import simulate

EDGE = "source->sink"


def run_of(trace: Any = None, placement: int = 1, **more: Any) -> Run:
    """Ten records of 4 KiB in a second, a buffer each, then the end; rounds of 100 ms."""
    keys = {} if trace is None else {"trace": trace}
    mapping = {
        "schema": 1,
        "name": "by-hand",
        "duration_s": 2,
        "round_ms": 100,
        "options": {"taskmanager.memory.segment-size": "4kb"},
        "stages": [
            {
                "name": "source",
                "emit_rate": [{"at_s": 0, "rate": 10}, {"at_s": 1, "rate": 0}],
                "record_bytes": 4096,
                "placement": [0],
            },
            {"name": "sink", "placement": [placement]},
        ],
        "edges": [{"from": "source", "to": "sink"}],
    }
    return simulate(parse_scenario(mapping | keys | more))


def back(t_s: float, name: str, header: int, credit: int | None = None) -> Message:
    """A message of the sink."""
    return Message(t_s, EDGE, 0, 0, "backward", name, credit=credit, header_bytes=header)


def data(t_s: float, number: int, nbytes: int = 4096, credit: int = 1) -> Message:
    """A message of the source."""
    return Message(t_s, EDGE, 0, 0, "forward", "BufferResponse", number, credit, 0, nbytes, 43)


def test_a_small_job_by_hand() -> None:
    """A record falls due at the end of each tenth of a second, and is flushed at once; a round
    later it is taken up, its buffer recycled, and the credit on its way back."""
    found = data_trace(run_of(), EDGE)
    assert found[:4] == [
        back(0.0, "PartitionRequest", 97, 2),
        data(0.1, 0),
        data(0.2, 1),
        back(0.2, "AddCredit", 29, 1),
    ]
    assert [one for one in found if one.direction == "forward"] == [
        *(data(round(0.1 * (n + 1), 1), n) for n in range(10)),
        data(1.0, 10, nbytes=4, credit=0),
    ]
    assert found[-2:] == [back(1.1, "AddCredit", 29, 1), back(1.1, "CancelPartitionRequest", 25)]


def test_a_window_begins_and_ends_where_it_says() -> None:
    window = {"from_s": 0.4, "to_s": 0.6, "edges": [EDGE]}
    run, every = run_of(window), data_trace(run_of(), EDGE)
    assert data_trace(run, EDGE) == [one for one in every if 0.4 <= one.t_s <= 0.6]
    assert run.tables["messages"].num_rows == 6


def test_a_channel_within_a_task_manager_has_none() -> None:
    assert data_trace(run_of({}, placement=0), EDGE) == []


@pytest.mark.parametrize(
    ("edge", "receiver", "text"),
    [
        ("source->snk", 0, "'source->snk' is not an edge of the job: it has source->sink"),
        (EDGE, 1, "source->sink has no channel 0 to 1: it has 0 to 0"),
    ],
)
def test_a_channel_that_is_not_there_is_refused(edge: str, receiver: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        data_trace(run_of(), edge, 0, receiver)


def test_a_run_that_cannot_be_run_again_says_what_to_state() -> None:
    with pytest.raises(RunError, match=r"state trace in its scenario"):
        data_trace(replace(run_of(), again=None), EDGE)


def test_an_edge_that_the_trace_leaves_out_is_named() -> None:
    stages = [
        {"name": "source", "emit_rate": 10, "record_bytes": 4096, "placement": [0]},
        {"name": "sink", "placement": [1]},
        {"name": "other", "placement": [1]},
    ]
    edges = [{"from": "source", "to": "sink"}, {"from": "source", "to": "other"}]
    run = run_of({"edges": [EDGE]}, stages=stages, edges=edges)
    with pytest.raises(RunError, match=r"leaves source->other out: it has source->sink"):
        data_trace(run, "source->other")


@pytest.mark.parametrize(
    ("numbers", "expected", "received"), [([0, 1, 3], 2, 3), ([0, 1, 1], 2, 1), ([5, 6, 8], 7, 8)]
)
def test_a_gap_is_an_error_with_both_numbers(
    numbers: list[int], expected: int, received: int
) -> None:
    text = f"expected buffer with sequence number {expected}, but received {received}"
    with pytest.raises(ProtocolError, match=f"channel 0 to 0 of source->sink.*re-ordering.*{text}"):
        check_sequence([data(0.1, number) for number in numbers])


def test_numbers_begin_again_with_a_partition_request() -> None:
    again = [back(0.0, "PartitionRequest", 97, 2), data(0.1, 0)]
    check_sequence([*again, data(0.2, 1), *again])
    with pytest.raises(ProtocolError, match="expected buffer with sequence number 1, "):
        check_sequence([*again, data(0.2, 2)])
