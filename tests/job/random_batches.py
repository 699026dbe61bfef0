"""Random jobs with Spark's time: windows that are answered batch by batch."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from flowcontrol.layout.job import Job
from flowcontrol.scenario import Scenario, check_clock, parse_scenario
from modules import load

random_windows: Any = load("tests/job/random_windows.py")

FORMS = [
    *(
        (kind, mode)
        for kind in ("tumbling", "sliding")
        for mode in ("append", "update", "complete")
    ),
    ("session", "append"),
    ("session", "complete"),
]
MOST_RECORDS = 15
"""Records a round of a source, so that windows have something in them."""


@st.composite
def batched(draw: Any, scenario: Scenario, *, is_throttled: bool = False) -> Scenario:
    """Give one or two stages of a scenario windows of Spark's, none behind the other.

    With ``is_throttled`` batches are those of a throttle.
    """
    mapping, round_s = scenario.canonical(), scenario.live_round_us / 1e6

    def seconds(rounds: float) -> float:
        return max(0.001, round(rounds * round_s, 3))

    stages = {stage["name"]: stage for stage in mapping["stages"]}
    edges = mapping["edges"]
    receivers = {edge["to"] for edge in edges}
    can_have = sorted(receivers - {edge["to"] for edge in edges if edge.get("chain")})
    assume(can_have)
    chosen = draw(st.lists(st.sampled_from(can_have), min_size=1, max_size=2, unique=True))
    chosen = [one for one in chosen if not {*scenario.upstream(one)} & {*chosen}]
    form = draw(st.sampled_from(FORMS))
    has_watermark = form[1] == "append" or draw(st.sampled_from([True, True, False]))
    delays = draw(st.lists(st.sampled_from([0, 2, 9]).map(seconds), min_size=1, max_size=2))
    for number, source in enumerate(one for one in stages.values() if one["name"] not in receivers):
        source.pop("stalls", None)
        rate = draw(st.sampled_from([MOST_RECORDS, 5, 1.5, 0.4])) / round_s
        stop = [{"at_s": 0, "rate": round(rate, 3)}, {"at_s": seconds(12), "rate": 0}]
        rates = draw(st.sampled_from([round(rate, 3), stop]))
        if "arrival_rate" in source:
            source["arrival_rate"], rates = rates, round(4 * rate, 3)
        source["emit_rate"] = rates
        behind = seconds(draw(st.sampled_from([0, 3, 12])))
        source["event_time"] = {"out_of_orderness_s": behind}
        if draw(st.booleans()):
            source["event_time"]["offset_s"] = -seconds(2)
        if has_watermark:
            source["watermark"] = {"delay_s": delays[number % len(delays)]}
    for name in chosen:
        stages[name]["window"] = draw(windows(seconds, *form))
        stages[name].pop("selectivity", None)
        stages[name]["record_bytes"] = draw(st.sampled_from([6000, 40_000, 12_000, 200]))
        draw(random_windows.keys_of(mapping, stages[name]))
    every = draw(st.sampled_from([1, 2, 4, 7]))
    mapping.update(time_model="spark", batch_s=round(every * scenario.live_round_us / 1e6, 6))
    if is_throttled:
        del mapping["batch_s"]
        transport = draw(st.sampled_from(["unbounded", "credit"]))
        interval_ms = 1000 * draw(st.sampled_from([0, 2, 5])) * round_s
        most = draw(st.sampled_from([0, 10, 40]))
        throttle = {"name": "static_admission", "interval_ms": interval_ms, "max_records": most}
        mapping["system"] = {"transport": transport, "throttle": throttle}
    found = parse_scenario(mapping)
    assume(not check_clock(found, "virtual"))
    return found


@st.composite
def windows(draw: Any, seconds: Any, kind: str, mode: str) -> dict[str, Any]:
    """A window of Spark's."""
    found: dict[str, Any] = {"kind": kind, "output": mode}
    size = draw(st.sampled_from([2, 5, 11]))
    if kind == "session":
        found["gap_s"] = seconds(draw(st.sampled_from([0.3, 1, 3])))
    else:
        found["size_s"] = seconds(size)
    if kind == "sliding":
        found["slide_s"] = seconds(size * draw(st.sampled_from([0.5, 0.3])))
    if kind != "session" and draw(st.booleans()):
        found["offset_s"] = round(found.get("slide_s", found["size_s"]) * 0.4, 3)
    return found


@st.composite
def jobs(draw: Any, random_jobs: ModuleType, shape: Any, *, is_throttled: bool = False) -> Job:
    """A random job with Spark's time."""
    scenario = draw(random_jobs.scenarios(shape))
    return random_jobs.laid_out(draw(batched(scenario, is_throttled=is_throttled)))
