"""The sentences about event time: what holds watermarks back, what is late, what windows hold.

A reader need not know watermarks: they come with the time that they cost, and with who causes it.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowcontrol.analysis.wording import seconds, size
from flowcontrol.scenario import Scenario

_MOST_IN_A_RUN: Final = 2
"""Sentences about event time that join the one about the bottleneck."""

_LEAST_MS: Final = 1000.0
"""A watermark that lags by this much more than the delay of its source matters, or by more:"""

_OF_DELAY: Final = 0.1
"""this share of the delay,"""

_PROBES: Final = 2
"""so many intervals of its probes,"""

_ROUNDS: Final = 2
"""so many rounds a hop,"""

_BATCHES: Final = 1.5
"""or so many of Spark's batches: what one reads counts from the next one on."""

_PAUSED: Final = 0.02
"""Share of its time from which it matters that a source was paused."""

_LEAST_SILENCE_S: Final = 2.0
"""A source that is silent for less is not named."""

_SHOWN: Final = 0.02
"""Share of a lag from which a part of it is named."""

_LEAST_SHOWN_MS: Final = 10.0

_SILENT: Final = {
    "no_event_time": "the records of {source} have no event time",
    "no_watermark": "{source} states no watermark",
    "no_probes": "{source} is never probed for one, pipeline.auto-watermark-interval being 0",
    "no_records": "{who} has emitted no record, and is not idle",
    "on_way": "that of {who} is on its way",
}


def event_time_sentences(found: Mapping[str, Any], scenario: Scenario) -> list[str]:
    """Return the sentences about the event time of a run.

    ``found``: from :func:`flowcontrol.analysis.event_time.event_time_summary`, but for its
    sentences.

    The sentences say which tasks no watermark reaches, what the longest lag consists of, which
    source fell silent, what was late, what was paused, and what windows held.
    """
    return [
        *_of_silent(found, scenario),
        *_of_lag(found, scenario),
        *_of_silence(found, scenario),
        *_of_late(found, scenario),
        *_of_paused(found, scenario),
        *_of_windows(found, scenario),
    ]


def run_sentences(found: Mapping[str, Any], scenario: Scenario, round_ms: float) -> list[str]:
    """Return those of the sentences that matter to the run as a whole, at most two.

    - ``found``: as for :func:`event_time_sentences`.
    - ``round_ms`` (ms): length of a round.
    """
    silent, apart = found["silent"], found["apart"]
    sentences: list[str] = []
    if silent is not None and silent["why"] != "on_way":
        sentences += _of_silent(found, scenario)
    sentences += _of_late(found, scenario)
    if apart is not None and _excess_ms(apart) > _allowed_ms(apart, scenario, round_ms):
        sentences += [*_of_silence(found, scenario)] or [*_of_lag(found, scenario)]
    sentences += _of_paused(found, scenario)
    return sentences[:_MOST_IN_A_RUN]


def _excess_ms(apart: Mapping[str, Any]) -> float:
    """Return by how much emulated time a watermark lags more than is stated."""
    behind: float = apart["lag_ms"] - apart["delay_ms"] - max(0.0, apart["offset_ms"])
    speed: float = apart["speed"]
    return behind / speed if speed > 0 else math.copysign(math.inf, behind)


def _allowed_ms(apart: Mapping[str, Any], scenario: Scenario, round_ms: float) -> float:
    interval_ms = scenario.options.watermark_interval_us / 1000
    batch_us = scenario.batch_us if scenario.time_model == "spark" else None
    return max(
        _LEAST_MS,
        _OF_DELAY * float(apart["delay_ms"]),
        _PROBES * interval_ms,
        _ROUNDS * round_ms * (1 + len(apart["hops"])),
        0.0 if batch_us is None else _BATCHES * batch_us / 1000,
    )


def subtask_name(scenario: Scenario, stage: str, subtask: int) -> str:
    """Return ``subtask 2 of map``, or ``map`` if it has only one."""
    return stage if scenario.stage(stage).parallelism == 1 else f"subtask {subtask} of {stage}"


def _of_silent(found: Mapping[str, Any], scenario: Scenario) -> Iterator[str]:
    silent = found["silent"]
    if silent is None:
        return
    stage, source, why = silent["stage"], silent["source"], silent["why"]
    who = subtask_name(scenario, source, silent["subtask"])
    text = f"No watermark has reached {stage}: {_SILENT[why].format(source=source, who=who)}"
    later = [stage, *scenario.downstream(stage)]
    waiting = [name for name in later if scenario.stage(name).window is not None]
    if waiting and why != "on_way":
        text += f", so no window of {waiting[0]} fires by event time"
    marks = scenario.stage(source).watermark
    if why == "no_records" and marks is not None and marks.idle_after_s is None:
        text += "; state watermark.idle_after_s, and nobody waits for it"
    yield f"{text}."


def _of_lag(found: Mapping[str, Any], scenario: Scenario) -> Iterator[str]:
    apart = found["apart"]
    if apart is None:
        return
    source = subtask_name(scenario, apart["source"], apart["source_subtask"])
    if apart["stands_since_s"] is not None:
        yield _standing(apart, source, scenario)
        return
    who = subtask_name(scenario, apart["stage"], apart["subtask"])
    unit = " of event time behind the furthest source" if apart["relative"] else ""
    mean = "on average"
    if apart["from_s"] > 0:
        mean += f" from {seconds(apart['from_s'])} s on"
    text = f"The watermark at {who} lags {time_text(apart['lag_ms'])}{unit} {mean}"
    if time_text(apart["max_ms"]) != time_text(apart["lag_ms"]):
        text += f", {time_text(apart['max_ms'])} at most"
    parts = list(_parts(apart, source, scenario))
    yield f"{text}: {', '.join(parts)}." if parts else f"{text}."


def _standing(apart: Mapping[str, Any], source: str, scenario: Scenario) -> str:
    """Return what is known of a source whose watermark does not move."""
    since = f"has not moved since {seconds(apart['stands_since_s'])} s"
    text = f"Event time is held back by {source}: its watermark {since}"
    if apart["source_rate"] > 0:
        probed = 4 * scenario.options.watermark_interval_us < scenario.duration_us
        is_seen = scenario.time_model == "flink" and probed  # a later time would have shown
        return f"{text}, as no record since has a later time." if is_seen else f"{text}."
    text += ", as it emits nothing and is not idle"
    marks = scenario.stage(apart["source"]).watermark
    if marks is not None and marks.idle_after_s is None:
        text += "; state watermark.idle_after_s, and nobody waits for it"
    return f"{text}."


def _of_silence(found: Mapping[str, Any], scenario: Scenario) -> Iterator[str]:
    """Yield which source everybody waited for: nothing if it is what the lag is due to anyway."""
    own, apart = found["silence"], found["apart"]
    stands = apart is not None and apart["stands_since_s"] is not None
    if own is None or stands or found["silent"] is not None:
        return
    length_s = own["until_s"] - own["from_s"]
    if length_s < max(_LEAST_SILENCE_S, _PROBES * scenario.options.watermark_interval_us / 1e6):
        return
    who = subtask_name(scenario, own["stage"], own["subtask"])
    when = f"from {seconds(own['from_s'])} to {seconds(own['until_s'])} s"
    text = f"The watermark of {who} stood {when}, as it emitted nothing and was not idle"
    yield f"{text}{_idleness(own['stage'], length_s, scenario)}."


def _idleness(source: str, length_s: float, scenario: Scenario) -> str:
    """Return what to do about a source that nobody should wait for."""
    marks = scenario.stage(source).watermark
    if marks is None or marks.idle_after_s is None:
        return "; state watermark.idle_after_s, and nobody waits for it"
    if marks.idle_after_s > length_s / 2:
        return f"; it is idle only after {float(marks.idle_after_s):g} s"
    return ""


def _parts(apart: Mapping[str, Any], source: str, scenario: Scenario) -> Iterator[str]:
    """Yield the parts of a lag that are long enough, from the source on, and what is left."""
    least = max(_LEAST_SHOWN_MS, _SHOWN * apart["lag_ms"])
    left = apart["lag_ms"]
    at_source = "", f"pass at {source} itself"
    if apart["relative"]:
        at_source = f"{source} itself is ", "behind"
    elif scenario.time_model == "spark":
        at_source = "", "pass until the batch that uses it"
    stated = (
        (apart["delay_ms"], "", f"are the delay of {apart['source']}"),
        (apart["offset_ms"], "", f"are the offset of {source}"),
        (apart["at_source_ms"], *at_source),
    )
    for part_ms, before, after in stated:
        if part_ms >= least:
            left -= part_ms
            yield f"{before}{time_text(part_ms)} {after}"
    for hop in apart["hops"]:
        if hop["wait_ms"] >= least:
            left -= hop["wait_ms"]
            wait, records = time_text(hop["wait_ms"]), f"{hop['in_flight_records']:,.0f} records"
            yield f"{wait} wait in flight at {hop['edge']} behind {records}"
    if left >= least:
        yield f"{time_text(left)} are the rest"


def _of_late(found: Mapping[str, Any], scenario: Scenario) -> Iterator[str]:
    for name, own in found["stages"].items():
        late, taken = own["late_records"], own["records_in"]
        if not late:
            continue
        if scenario.time_model == "spark":
            text = f"{late:,} groups of {name}'s batches came too late, as Spark counts them"
            yield f"{text}{_why_late(name, found, scenario)}."
            continue
        share = f" ({100 * late / taken:.{1 if 10 * late < taken else 0}f} %)" if taken else ""
        text = f"{late:,} of the {taken:,} records of {name}{share} came too late for its windows"
        yield f"{text}{_why_late(name, found, scenario)}."


def _why_late(stage: str, found: Mapping[str, Any], scenario: Scenario) -> str:
    """Return why records may have come late: the first source for which there is a reason."""
    before = scenario.upstream(stage)
    for source in (one for one in scenario.sources if one.name in before):
        times, marks = source.event_time, source.watermark
        if times is None or marks is None:
            continue
        most, delay = max(times.out_of_orderness_ms), marks.delay_ms
        waits = (
            f"its watermark waits {time_text(delay)}" if delay else "its watermark does not wait"
        )
        if times.distribution == "exponential" and most:
            mean = f"{time_text(most)} behind on average, without a bound"
            return f": records of {source.name} lie {mean}, and {waits}"
        if most > delay:
            return f": records of {source.name} lie up to {time_text(most)} behind, and {waits}"
    for source in (one for one in scenario.sources if one.name in before):
        if found["stages"][source.name]["idle_share"] > 0:
            return f": {source.name} was idle for a while, so nobody waited for it"
    return ""


def _of_paused(found: Mapping[str, Any], scenario: Scenario) -> Iterator[str]:
    for name, own in found["stages"].items():
        share = own["most_paused_ms_per_s"] / 1000
        if share < _PAUSED:
            continue
        who, other = subtask_name(scenario, name, own["most_paused"]), own["waits_for"]
        text = f"Alignment paused {who} {100 * share:.0f} % of the time"
        if other is None:
            yield f"{text}, although no other source of its group was behind it."
            continue
        slowest = subtask_name(scenario, other["stage"], other["subtask"])
        yield f"{text}: its event time was ahead of that of {slowest}, the slowest of its group."


def _of_windows(found: Mapping[str, Any], scenario: Scenario) -> Iterator[str]:
    done = "put out" if scenario.time_model == "spark" else "fired"
    for name, own in found["stages"].items():
        if not own["max_open_windows"] and not own["fired"]:
            continue
        text = f"{name} held no window at any sample"
        if own["max_open_windows"]:
            text = f"{name} held up to {_count(own['max_open_windows'], 'window')} at a sample"
            text += f", {size(own['max_window_state_bytes'])}"
        text += f"; it {done} {_count(own['fired'], 'result')}"
        if own["max_fired"]:
            text += f", up to {own['max_fired']:,} between two samples"
        yield f"{text}."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def time_text(ms: float) -> str:
    """Return a time: ``16.3 s``, ``40 ms``; a long one, as event time may be, in ``h`` or days."""
    length_s = ms / 1000
    for unit_s, name in ((86_400, "days"), (3600, "h"), (60, "min")):
        if abs(length_s) >= max(2 * unit_s, 600):
            return f"{seconds(length_s / unit_s)} {name}"
    if abs(ms) < 1000:
        return f"{ms:,.0f} ms"
    text = f"{length_s:,.{0 if abs(length_s) >= 100 else 1}f}"
    return f"{text.removesuffix('.0')} s"
