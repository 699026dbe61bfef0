"""Every assigner with every trigger does what a plain model does, whatever comes in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.spec import WindowOperator

from .model import Model

ASSIGNERS: dict[str, tuple[Any, ...]] = {
    "tumbling": ("tumbling", 10, 3),
    "sliding": ("sliding", 10, 4, -1),
    "apart": ("sliding", 4, 7, 0),
    "session": ("session", 6),
    "gaps": ("session", lambda key, value: value),
    "global": ("global",),
}
TRIGGERS: dict[str, tuple[Any, ...]] = {
    "event": ("event",),
    "processing": ("processing",),
    "count": ("count", 3),
    "continuous": ("continuous", 4),
    "never": ("never",),
    "of count": ("timeout", ("count", 3), 5, True, False),
    "of event": ("timeout", ("event",), 5, False, True),
    "of continuous": ("timeout", ("continuous", 4), 9, True, True),
    "of processing": ("timeout", ("processing",), 7, False, False),
}
PAIRS = [
    (assigner, trigger)
    for assigner in ASSIGNERS
    for trigger in TRIGGERS
    if not (assigner in ("session", "gaps") and trigger.startswith("of"))
]

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("element"), st.sampled_from("aab"), st.integers(0, 9), st.integers(-15, 9)
        ),
        st.tuples(st.just("watermark"), st.integers(0, 9)),
        st.tuples(st.just("tick"), st.integers(0, 9)),
        st.tuples(st.just("restore")),
    ),
    min_size=20,
    max_size=60,
)
OPTIONS = st.fixed_dictionaries(
    {
        "lateness": st.sampled_from([0, 0, 3, 20]),
        "purging": st.booleans(),
        "time": st.sampled_from(["event", "event", "processing"]),
    }
)


def play(given_: dict[str, Any], steps: list[tuple[Any, ...]], met: Counter[str]) -> None:
    """Do the steps on both, and compare what each causes."""
    operator, model = WindowOperator(**given_), Model(**given_)
    watermark, now = -20, -20
    operator.watermark(watermark), operator.tick(now)
    model.advance("event", watermark), model.advance("clock", now)
    for name, *more in steps:
        if name == "element":
            element = (now, more[0], more[1], watermark + more[2] + 6)
            found, wanted = operator.element(*element), model.element(*element)
        elif name == "watermark":
            watermark += more[0]
            found, wanted = operator.watermark(watermark), model.advance("event", watermark)
        elif name == "tick":
            now += more[0]
            found, wanted = operator.tick(now), model.advance("clock", now)
        else:
            operator = WindowOperator.restore(operator.snapshot())
            found = wanted = []
        assert found == wanted, (name, more)
        met["fired"] += len(found)
        met["several"] += len(found) > 1
    assert operator.late == model.late
    assert operator.dropped == len(model.late)
    for pane in model.panes:
        timers = {
            time
            for other in model.panes
            if (other.start, other.end) == (pane.start, pane.end)
            for time in other.timers["event"] | other.timers["clock"]
        }
        assert operator.timers((pane.start, pane.end)) == sorted(timers)
    met["late"] += len(model.late)
    met["merged"] += model.merged


@pytest.mark.parametrize(("assigner", "trigger"), PAIRS)
def test_windows_are_those_of_the_model(
    assigner: str, trigger: str, draw_until: Callable[..., None]
) -> None:
    met: Counter[str] = Counter()

    @settings(max_examples=max(3, settings.default.max_examples // 8))
    @given(options=OPTIONS, steps=STEPS)
    def look(options: dict[str, Any], steps: list[tuple[Any, ...]]) -> None:
        play({"assigner": ASSIGNERS[assigner], "trigger": TRIGGERS[trigger], **options}, steps, met)

    wanted = {"late"} if assigner != "global" else set()
    if trigger != "never" and (assigner, trigger) != ("global", "event"):
        wanted |= {"fired"}
        is_single = assigner == "global" or (trigger == "count" and assigner != "sliding")
        wanted |= set() if is_single else {"several"}
    if (assigner, trigger) == ("global", "processing"):
        wanted = set()
    if assigner in ("session", "gaps"):
        wanted |= {"merged"}
    draw_until(look, lambda: all(met[name] for name in wanted), 100)
    assert all(met[name] for name in wanted), met
