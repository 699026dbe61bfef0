"""Random jobs with event time: what the tests of several folders draw."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from flowcontrol.layout.job import Job
from flowcontrol.scenario import Scenario, parse_scenario

INTERVAL = "pipeline.auto-watermark-interval"


@st.composite
def timed(draw: Any, scenario: Scenario, *, is_late: bool = True) -> Scenario:
    """Give the sources of a scenario event times and, all but some, watermarks.

    With ``is_late`` False no record is late: none lies further behind than the watermark, and no
    source is ever idle, whose records then find that the others have gone on without it.
    """
    mapping, round_s = scenario.canonical(), scenario.live_round_us / 1e6

    def seconds(rounds: float) -> float:
        return round(rounds * round_s, 3)

    inner = {edge["to"] for edge in mapping["edges"]}
    sources = [stage for stage in mapping["stages"] if stage["name"] not in inner]
    for stage in sources:
        is_last = len(sources) > 1 and stage is sources[-1]
        if is_last and draw(st.sampled_from([False] * 5 + [True])):
            continue
        behind = seconds(draw(st.sampled_from([0, 3, 7, 15])))
        times: dict[str, Any] = {"out_of_orderness_s": behind}
        if behind > 0 and is_late and draw(st.sampled_from([True, False, False])):
            times["distribution"] = "exponential"
        offset = st.sampled_from([0, 0, -40, 13])
        each = st.lists(offset, min_size=stage["parallelism"], max_size=stage["parallelism"])
        times["offset_s"] = [seconds(rounds) for rounds in draw(each)]
        stage["event_time"] = times
        if draw(st.sampled_from([False] * 7 + [True])):
            continue
        late = st.sampled_from([0, 2, 20]).map(seconds) if is_late else st.just(behind)
        mark = stage["watermark"] = {"delay_s": draw(late)}
        if is_late and draw(st.sampled_from([False, False, True])):
            mark.update(punctuated=True, delay_s=0)
        if is_late and draw(st.booleans()):
            mark["idle_after_s"] = max(0.001, seconds(draw(st.sampled_from([1, 2, 4]))))
    every = max(1, round(1000 * draw(st.sampled_from([1, 2.5, 4, 9])) * round_s))
    mapping.setdefault("options", {})[INTERVAL] = f"{every}ms"
    return parse_scenario(mapping)


@st.composite
def jobs(draw: Any, random_jobs: ModuleType, shape: Any, *, is_late: bool = True) -> Job:
    """A random job with event time."""
    scenario = draw(random_jobs.scenarios(shape))
    return random_jobs.laid_out(draw(timed(scenario, is_late=is_late)))


@st.composite
def aligned(draw: Any, scenario: Scenario) -> Scenario:
    """Have sources of a scenario with event time wait for one another."""
    mapping, round_s = scenario.canonical(), scenario.live_round_us / 1e6

    def seconds(rounds: float) -> float:
        return max(0.001, round(rounds * round_s, 3))

    for stage in mapping["stages"]:
        mark = stage.get("watermark")
        if mark is None or draw(st.sampled_from([False] * 5 + [True])):
            continue
        mark["alignment"] = {
            "group": draw(st.sampled_from(["all", "all", "all", "other"])),
            "max_drift_s": seconds(draw(st.sampled_from([0, 1, 5]))),
            "interval_s": seconds(draw(st.sampled_from([0.4, 1, 3.5, 6]))),
        }
    return parse_scenario(mapping)


@st.composite
def aligned_jobs(draw: Any, random_jobs: ModuleType, shape: Any) -> Job:
    """A random job whose sources may have to wait for one another."""
    scenario = draw(timed(draw(random_jobs.scenarios(shape))))
    return random_jobs.laid_out(draw(aligned(scenario)))


@st.composite
def marked_jobs(draw: Any, random_jobs: ModuleType, shape: Any) -> Job:
    """A random job with latency markers, and perhaps event time and sources that wait."""
    scenario = draw(random_jobs.scenarios(shape))
    if draw(st.booleans()):
        scenario = draw(aligned(draw(timed(scenario))))
    mapping, round_ms = scenario.canonical(), scenario.live_round_us / 1000
    every = max(1, round(draw(st.sampled_from([0.4, 1, 2.5, 6])) * round_ms))
    mapping.setdefault("options", {})["metrics.latency.interval"] = f"{every}ms"
    return random_jobs.laid_out(parse_scenario(mapping))
