"""Random jobs with windows: what the tests of several folders draw."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from flowcontrol.layout.job import Job
from flowcontrol.scenario import Scenario, parse_scenario

INTERVAL = "pipeline.auto-watermark-interval"
KINDS = ("tumbling", "sliding", "session", "global")
DISTRIBUTIONS = (
    {"kind": "uniform", "keys": 7},
    {"kind": "zipf", "keys": 40},
    {"kind": "hot", "keys": 5, "share": 0.7},
)


@st.composite
def windowed(
    draw: Any, scenario: Scenario, *, is_late: bool = True, is_seldom: bool = False
) -> Scenario:
    """Give some stages of a scenario windows, and its sources event times and watermarks.

    With ``is_late`` False no record is behind the watermark by more than it may be; with
    ``is_seldom`` many are, or have a burst of their own.
    """
    mapping, round_s = scenario.canonical(), scenario.live_round_us / 1e6

    def seconds(rounds: float) -> float:
        return max(0.001, round(rounds * round_s, 3))

    stages = {stage["name"]: stage for stage in mapping["stages"]}
    receivers = [edge["to"] for edge in mapping["edges"]]
    chained = {edge["to"] for edge in mapping["edges"] if edge.get("chain")}
    can_have = sorted(set(receivers) - chained)
    assume(can_have)
    chosen = draw(st.lists(st.sampled_from(can_have), min_size=1, max_size=2, unique=True))
    is_timed = is_seldom or draw(st.sampled_from([True, True, True, False]))
    for stage in stages.values():
        if stage["name"] in receivers:
            continue
        stage.pop("stalls", None)
        rate = (
            draw(st.sampled_from([15, 5, 1.5])) / round_s
        )  # so that windows have something in them
        if "arrival_rate" in stage:
            stage["arrival_rate"], rate = round(rate, 3), 4 * rate
        stage["emit_rate"] = round(rate, 3)
        if is_timed:
            behind = seconds(7 if is_seldom else draw(st.sampled_from([0, 3, 7])))
            stage["event_time"] = {"out_of_orderness_s": behind}
            delays = [0] if is_seldom else [0, 2, 9]
            delay = draw(st.sampled_from(delays).map(seconds)) if is_late else behind
            stage["watermark"] = {"delay_s": delay}
    for name in chosen:
        stages[name]["window"] = draw(
            seldom_windows(seconds) if is_seldom else windows(seconds, is_timed=is_timed)
        )
        stages[name].pop("selectivity", None)
        stages[name]["record_bytes"] = draw(st.sampled_from([6000, 12_000, 200]))
        draw(keys_of(mapping, stages[name]))
    every = max(1, round(1000 * draw(st.sampled_from([1, 2.5, 4])) * round_s))
    mapping.setdefault("options", {})[INTERVAL] = f"{every}ms"
    return parse_scenario(mapping)


@st.composite
def keys_of(draw: Any, mapping: dict[str, Any], stage: dict[str, Any]) -> None:
    """Say which keys the records have that enter a stage with a window."""
    into = [edge for edge in mapping["edges"] if edge["to"] == stage["name"]]
    is_named = stage["parallelism"] > 1 or draw(st.booleans())
    keys = draw(st.sampled_from(DISTRIBUTIONS)) if is_named else None
    for edge in into if keys is not None else ():
        for key in ("key_weights", "channel_weights", "key_distribution"):
            edge.pop(key, None)
        edge.update(partitioner="hash", key_distribution=keys)
    if all("key_weights" not in edge and "key_distribution" not in edge for edge in into):
        stage["window"]["keys"] = draw(st.sampled_from([1, 3, 50]))


@st.composite
def windows(draw: Any, seconds: Any, *, is_timed: bool) -> dict[str, Any]:
    """A window that the job allows."""
    kind = draw(st.sampled_from(KINDS))
    size = draw(st.sampled_from([2, 5, 11]))
    found: dict[str, Any] = {"kind": kind, "accumulate": draw(st.booleans())}
    found["bytes_per_key"] = draw(st.sampled_from([32, 0, 1000]))
    if kind in {"tumbling", "sliding"}:
        found["size_s"] = seconds(size)
    if kind == "sliding":
        found["slide_s"] = seconds(size * draw(st.sampled_from([0.5, 0.1, 1.5])))
    if kind == "session":
        found["gap_s"] = seconds(draw(st.sampled_from([0.3, 1, 3])))
    plain = ["event_time", "event_time", "processing_time"] if is_timed else ["processing_time"]
    if kind == "global":
        plain = []
    more = [{"count": draw(st.sampled_from([1, 3, 20]))}, {"continuous_s": seconds(3)}]
    found["trigger"] = draw(st.sampled_from([*plain, *more]))
    if is_timed and kind != "global" and found["trigger"] != "processing_time":
        found["allowed_lateness_s"] = seconds(draw(st.sampled_from([1, 4]))) * draw(
            st.sampled_from([0, 1])
        )
    return found


@st.composite
def seldom_windows(draw: Any, seconds: Any) -> dict[str, Any]:
    """A short window that drops what is late, or many that all fire at each record."""
    found: dict[str, Any] = {"accumulate": draw(st.booleans()), "size_s": seconds(2)}
    if draw(st.booleans()):
        return {**found, "kind": "tumbling", "trigger": "event_time"}
    return {**found, "kind": "sliding", "slide_s": seconds(0.2), "trigger": {"count": 1}}


@st.composite
def jobs(draw: Any, random_jobs: ModuleType, shape: Any, **more: bool) -> Job:
    """A random job with windows; ``more`` is for :func:`windowed`."""
    scenario = draw(random_jobs.scenarios(shape))
    return random_jobs.laid_out(draw(windowed(scenario, **more)))
