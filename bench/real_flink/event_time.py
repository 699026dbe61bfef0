"""Event time of a scenario as the program in ``src/`` reads it: times, watermarks, windows.

Flink's records get the event times and ids that the emulation gives them, by its own functions: the
results of windows are then equal, record by record, where nothing depends on real time.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from flowcontrol.layout.graph import JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.shares import mix
from flowcontrol.layout.task_settings import link_keys, new_time
from flowcontrol.layout.work import Arrivals
from flowcontrol.protocol.event_time import ID_BITS, id_of, stamp_of
from flowcontrol.protocol.service import EXPONENTIAL, relative_time
from flowcontrol.results.windows import key_names
from flowcontrol.scenario import Edge, Scenario
from flowcontrol.scenario.stage_models import Stage

LONGER = 1.1
"""So much longer than the run are the sequences: Flink begins and ends it a moment apart."""

ANY_ROUND_US = 1000
"""Event times do not depend on rounds."""


def _job(scenario: Scenario) -> Job:
    return build_physical_graph(scenario, round_us=ANY_ROUND_US)


def event_times(scenario: Scenario, stage: Stage) -> dict[str, Any] | None:
    """Return the stamps of a source's records, in the order in which it emits them.

    Returns
    -------
    dict or None
        ``stamps``: 64-bit integers, the highest byte first, in base 64, a text a subtask;
        ``are_whole``: whether they hold the whole event time. Else the time of emission is added:
        only that of records of a log is known before. None without event time, and for other
        stages.
    """
    if not scenario.has_stamps or scenario.inputs(stage.name):
        return None
    subtasks = range(stage.parallelism)
    texts = [base64.b64encode(stamps(scenario, stage, n).tobytes()).decode() for n in subtasks]
    return {"stamps": texts, "are_whole": stage.arrival_rate is not None}


def stamps(scenario: Scenario, stage: Stage, subtask: int) -> np.ndarray:
    """Return the stamps of the records of a subtask (`flowcontrol.protocol.tasks.event_time`)."""
    job = _job(scenario)
    plan = job.stage(stage.name)
    time, seed = new_time(job, plan, subtask), scenario.seed
    born = _born_ms(job, plan, subtask)
    found = []
    for number, ms in enumerate(born):
        drawn = mix(seed, time.stream, number) >> 1
        found.append(stamp_of(ms + time.offset - _behind(time, drawn), id_of(drawn)))
    return np.array(found, ">i8")


def _behind(time: Any, drawn: int) -> int:
    """Return how far a record lies behind, ms."""
    if time.is_exponential:
        share = (drawn >> ID_BITS) * 2.0 ** (ID_BITS - 63)
        return int(relative_time(EXPONENTIAL, 0.0, share, 0.0) * time.spread)
    return (drawn >> ID_BITS) % (time.spread + 1)


def _born_ms(job: Job, plan: JobVertex, subtask: int) -> list[int]:
    """Return when the records of a log were written, ms; 0 for each that a rate makes."""
    until_us = int(LONGER * job.scenario.duration_us)
    log = Arrivals.of(job, plan, subtask)
    if log is not None:
        return [log.written_us(n) // 1000 for n in range(max(1, log.written_by(until_us)))]
    rates = plan.stage.emit_rate
    assert rates is not None  # a source has one
    return [0] * max(1, rates[subtask].records_until(until_us))


def watermark(stage: Stage) -> dict[str, Any] | None:
    """Return how a source makes its watermarks, ms; None: it makes none."""
    own = stage.watermark
    if own is None:
        return None
    alignment = own.alignment
    return {
        "delay_ms": own.delay_ms,
        "punctuated": own.punctuated,
        "idle_ms": None if own.idle_after_us is None else own.idle_after_us // 1000,
        "alignment": None
        if alignment is None
        else {
            "group": alignment.group,
            "drift_ms": alignment.max_drift_ms,
            "interval_ms": alignment.interval_us // 1000,
        },
    }


def window(scenario: Scenario, stage: Stage) -> dict[str, Any] | None:
    """Return the window of a stage, ms; None: it has none."""
    plan = scenario.window_of(stage.name)
    if plan is None:
        return None
    return {
        "kind": plan.kind,
        "size_ms": plan.size_ms,
        "slide_ms": plan.slide_ms,
        "gap_ms": plan.gap_ms,
        "offset_ms": plan.offset_ms,
        "lateness_ms": plan.lateness_ms,
        "trigger": plan.trigger,
        "every": plan.every,
        "accumulate": plan.is_accumulating,
        "keys": keys_into(scenario, scenario.inputs(stage.name)[0]),
    }


def keys_into(scenario: Scenario, edge: Edge) -> dict[str, Any] | None:
    """Return the keys of the records on an edge into a window, and the first id of each.

    None for other edges. No ids: all keys are alike.
    """
    if scenario.stage(edge.receiver).window is None:
        return None
    job = _job(scenario)
    [link] = [one for one in job.links if one.edge == edge]
    own = link_keys(job, link)
    assert own is not None
    names = key_names(job, edge.receiver)
    return {"names": list(names), "firsts": own.firsts.tolist()}


def options(scenario: Scenario) -> dict[str, str]:
    """Return Flink's options of event time.

    Aligned sources pause by their last watermark, as up to Flink 2.2 and in the emulation; 2.3
    would look at the third last one that it has sampled.
    """
    if not scenario.has_stamps:
        return {}
    every_ms = scenario.options.watermark_interval_us // 1000
    return {
        "pipeline.auto-watermark-interval": f"{every_ms}ms",
        "pipeline.watermark-alignment.buffer-size": "0",
    }
