"""What holds for every controller, whatever it sees."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.scenario.system import THROTTLE_PARTS
from flowcontrol.systems.throttles.controller import (
    Batches,
    Command,
    Controller,
    JobObservation,
    SourceObservation,
    TaskObservation,
    make_controller,
)

ROUND_US = 50_000
ABOVE = {"map": ["a"], "sink": ["a", "b"]}
# Parameters with which much happens within some rounds.
VALUES = {
    "global_hysteresis": {"slots": 100, "check_ms": 100, "delay_on_ms": 230, "delay_off_ms": 70},
    "stepwise_sleep": {"slots": 100, "interval_ms": 50, "samples": 2, "sample_rate": 0.5},
    "pid_rate": {"interval_ms": 200, "derivative": 0.01, "start_ms": 50},
    "static_admission": {"interval_ms": 100, "max_records": 70, "min_records": 20,
                         "max_delay_ms": 300, "start_ms": 70},
    "long_batches": {"batch_ms": 400, "overhead_ms": 150},
    "aimd_rate": {"interval_ms": 100, "window_ms": 300, "late_ms": 200, "cooldown_ms": 150},
    "frontier_lag": {"interval_ms": 100, "lag": 2},
}  # fmt: skip
SLACK = {"global_hysteresis": {"high_bytes": 1000, "low_bytes": 500, "consecutive": 2,
                               "takes_all": 1,
                               "check_ms": 0, "timeout_ms": 0}}  # fmt: skip

# Of a round: how much each source may emit and is offered, queues, whether the job is empty, and
# how old the oldest record is, in rounds.
rounds = st.lists(
    st.tuples(
        st.tuples(*[st.integers(0, 120)] * 3),
        st.tuples(*[st.integers(0, 120)] * 3),
        st.tuples(*[st.integers(0, 130)] * 3),
        st.booleans(),
        st.integers(-1, 9),
    ),
    max_size=60,
)
throttles = pytest.mark.parametrize(
    ("throttle", "values"), [*VALUES.items(), *SLACK.items()], ids=lambda it: str(it)[:20]
)


def make(throttle: str, values: dict[str, float]) -> Controller:
    made = make_controller(throttle, values, round_us=ROUND_US, spouts_above=ABOVE)
    assert made is not None
    return made


def drive(controllers: Sequence[Controller], drawn: list) -> Iterator[list[list[Command]]]:
    """Show controllers the same rounds, as a clock does; yield what they say each time.

    Sources emit what the first of the controllers admits.
    """
    emitted, offered = [0, 0, 0], [0, 0, 0]
    has_log = isinstance(controllers[0], Batches)

    def sources() -> tuple[SourceObservation, ...]:
        return tuple(
            SourceObservation("ab"[i > 1], i % 2, emitted[i], (offered[i] - emitted[i]) * has_log,
                       offered[i], [250.0, 0.0, 1e3 / 3][i])
            for i in range(3)
        )  # fmt: skip

    said = [controller.first(sources()) for controller in controllers]
    yield said
    for number, (can, due, queues, is_empty, age) in enumerate(drawn, 1):
        for i in range(3):
            offered[i] += due[i]
            most = said[0][i].admitted
            waits = offered[i] - emitted[i] if has_log else due[i]
            emitted[i] += min(can[i], waits) if most < 0 else min(can[i], waits, most - emitted[i])
        tasks = tuple(
            TaskObservation(stage, subtask, queued, 9 * queued, 0, service_ms)
            for stage, subtask, queued, service_ms in zip(
                ["map", "map", "sink"], [0, 1, 0], queues, [3.7, 12.0, 0.0], strict=True
            )
        )
        now_us = number * ROUND_US
        oldest_us = max(0, now_us - age * ROUND_US) if age >= 0 else -1
        seen = JobObservation(now_us, sources(), tasks, is_empty, 0, oldest_us)
        looks = {(c.next_look_us(), c.wants_empty) for c in controllers}
        assert len(looks) == 1
        if now_us >= min(looks)[0] or (is_empty and min(looks)[1]):
            said = [controller.observe(seen) for controller in controllers]
            assert all(controller.next_look_us() > now_us for controller in controllers)
            yield said


class Restarted:
    """A controller that is thrown away and restored from text each time it is asked."""

    def __init__(self, throttle: str, values: dict[str, float]) -> None:
        self.throttle, self.values = throttle, values
        self.text = json.dumps(make(throttle, values).state())

    def __getattr__(self, name: str):
        made = make(self.throttle, self.values)
        made.restore(json.loads(self.text))
        if name not in {"first", "observe"}:
            return getattr(made, name)

        def call(argument):
            commands = getattr(made, name)(argument)
            self.text = json.dumps(made.state(), allow_nan=False)
            return commands

        return call


@throttles
@given(drawn=rounds)
def test_one_that_is_restored_each_time_says_the_same(throttle, values, drawn):
    made, restarted = make(throttle, values), Restarted(throttle, values)
    for ours, theirs in drive([made, restarted], drawn):
        assert ours == theirs
    assert json.loads(restarted.text) == made.state()


@throttles
@given(drawn=rounds)
def test_what_is_said_makes_sense(throttle, values, drawn):
    made = make(throttle, values)
    before, messages = [-1, -1, -1], 0
    for (said,) in drive([made], drawn):
        assert len(said) == 3
        for command, most in zip(said, before, strict=True):
            assert command.is_stopped in (0, 1)
            assert command.gap_ns >= 0
            assert command.admitted >= most
            assert (command.admitted >= 0) == isinstance(made, Batches)
        before = [command.admitted for command in said]
        assert made.messages >= messages
        messages = made.messages


@given(drawn=rounds)
def test_rates_stay_between_their_bounds(drawn):
    aimd, pid = make("aimd_rate", VALUES["aimd_rate"]), make("pid_rate", VALUES["pid_rate"])
    for _ in drive([aimd], drawn):
        assert 500 <= aimd.rate <= 3500
    for _ in drive([pid], drawn):
        assert pid.published == -1 or pid.published >= 100


@given(drawn=rounds, most=st.integers(1, 200))
def test_a_batch_is_no_larger_than_its_limit_and_its_rounding(drawn, most):
    """A share below one is rounded up, so each source may have one too many."""
    made = make("static_admission", {"max_records": most})
    before = 0
    for (said,) in drive([made], drawn):
        now = sum(command.admitted for command in said)
        assert now - before <= most + 3
        before = now


def test_a_state_of_another_kind_is_refused():
    made = make("frontier_lag", {})
    state = made.state()
    with pytest.raises(ValueError, match="FrontierLag has ends, first_open"):
        made.restore({"messages": 1})
    with pytest.raises(ValueError, match="this one has nothing"):
        made.restore({})
    assert made.state() == state


def test_a_state_is_no_part_of_the_controller():
    made = make("frontier_lag", {})
    made.state()["ends"].append(7)
    state = made.state()
    made.restore(state)
    state["ends"].append(7)
    assert made.state()["ends"] == []


def test_every_throttle_has_a_controller_and_here_its_values():
    assert set(VALUES) == set(THROTTLE_PARTS) - {"none"}
