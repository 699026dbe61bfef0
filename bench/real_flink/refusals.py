"""What of a scenario a real Flink, or the program that runs on it here, cannot express.

Each refusal names the place, what is missing, and what to do instead; all are shown at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import event_time
import faults
import saving
from translate import KEY_BYTES, RECORD_OVERHEAD_BYTES, STAMP_BYTES, keyed

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.scenario import Edge, Scenario
from flowcontrol.scenario.models import SPILLING, Cluster
from flowcontrol.scenario.option_table import OPTIONS
from flowcontrol.scenario.problems import key_path
from flowcontrol.scenario.stage_models import Stage

_MEMORY = "taskmanager.network.memory."
_FIXED_IN_2 = (
    f"{_MEMORY}buffers-per-channel",
    f"{_MEMORY}floating-buffers-per-gate",
    f"{_MEMORY}max-buffers-per-channel",
    f"{_MEMORY}max-overdraft-buffers-per-gate",
)


def check(scenario: Scenario, version: str = "1.20.1") -> None:
    """Refuse a scenario that cannot be run on a version of Flink.

    Raises
    ------
    ScenarioError
        With everything that Flink or the program lacks.
    """
    problems = [*refusals(scenario), *_gone(scenario, version)]
    if problems:
        raise ScenarioError(problems, scenario.name)


def refusals(scenario: Scenario) -> Iterator[Problem]:
    """Yield everything that is not expressed on a real Flink."""
    for find in _ALL:
        yield from find(scenario)


def _gone(scenario: Scenario, version: str) -> Iterator[Problem]:
    """Flink 2 reads none of the options of how many buffers there are; they are as by default."""
    stated = scenario.options.canonical()
    for key in _FIXED_IN_2 if int(version.partition(".")[0]) >= 2 else ():
        default = OPTIONS[key].default
        if stated.get(key, default) != default:
            text = f"{stated[key]}: Flink 2 has no such option, and goes on with {default}"
            yield Problem(key_path(["options", key]), f"{text}; use --flink 1.20, or state that")


def _system(scenario: Scenario) -> Iterator[Problem]:
    system = scenario.system
    if system.transport != "credit":
        what = f"{system.transport}: Flink 1.20 and 2.x exchange by credits and nothing else"
        yield Problem("system.transport", f"{what}; use system: flink")
    if system.throttle != "none":
        what = f"{system.throttle}: Flink has no throttle of sources"
        yield Problem("system.throttle", f"{what}; use system: flink")


def _cluster(scenario: Scenario) -> Iterator[Problem]:
    """A MiniCluster is one process on loopback: nothing delays or slows its messages."""
    wanted = {
        "network_latency_ms": "the loopback network has no latency",
        "bandwidth_bytes_per_s": "the loopback network has no limit of bytes/s",
        "upload_slowdown": "nothing slows a task while its state is written",
        "control_latency_ms": "calls on one machine take no time that could be set",
        "cores": "all task managers share the processors of this machine",
    }
    for key, text in wanted.items():
        value = getattr(scenario.cluster, key, None)
        field = Cluster.model_fields.get(key)
        if field is not None and value != field.default:
            yield Problem(f"cluster.{key}", f"{float(value):g}: {text}; leave it out")


def _jobs(scenario: Scenario) -> Iterator[Problem]:
    if scenario.jobs and (scenario.is_fault_tolerant or scenario.has_stamps):
        what = "checkpoints, failures or event time"
        text = f"the program looks at {what} of one job; leave them out, or state one job"
        yield Problem("jobs", text)


def _planted(scenario: Scenario) -> Iterator[Problem]:
    yield from (Problem(place, text) for place, text in faults.refusals(scenario))
    yield from (Problem(place, text) for place, text in saving.refusals(scenario))
    if getattr(scenario, "scaling", None) is not None:
        yield Problem("scaling", "the program keeps its parallelism; leave it out")


def _mode(scenario: Scenario) -> Iterator[Problem]:
    if scenario.is_batch:
        text = "batch: its sources never end, so that no stage would begin; use streaming"
        yield Problem('options."execution.runtime-mode"', text)
    for key, value in scenario.options.unemulated:
        text = f"{value}: no clock emulates it, so there is nothing to compare; leave it out"
        yield Problem(f'options."{key}"', text)


def _stages(scenario: Scenario) -> Iterator[Problem]:
    for number, stage in enumerate(scenario.stages):
        place = f"stages[{number}]"
        lacking = {
            "input": "its records have no content but a key; state rates and sizes alone",
            "output": "its sinks count and drop; leave it out",
        }
        for key, text in lacking.items():
            if getattr(stage, key) is not None:
                yield Problem(f"{place}.{key}", f"the program has none: {text}")
        yield from _requests(place, stage)
        yield from _window(scenario, place, stage)
        if stage.stalls and not scenario.inputs(stage.name) and not stage.reads_log:
            text = "a source that stands still is idle on Flink; state a schedule with rate: 0"
            yield Problem(f"{place}.stalls", text)
        if stage.cpu not in {None, 1}:
            text = f"{stage.cpu}: its service is a sleep, which needs no processor; leave it out"
            yield Problem(f"{place}.cpu", text)


def _requests(place: str, stage: Stage) -> Iterator[Problem]:
    own = stage.requests
    if own is None:
        return
    if own.own_style not in {"async", "await"}:
        text = f"{own.own_style}: the program has Flink's AsyncSinkBase and AsyncWaitOperator alone"
        yield Problem(f"{place}.requests.style", f"{text}; use async or await")
    if own.cache is not None:
        yield Problem(f"{place}.requests.cache", "the program calls for every record; leave it out")
    if own.is_of_operator and stage.selectivity_exact != 1:
        text = f"{float(stage.selectivity_exact):g}: a call of the program has one record as result"
        yield Problem(f"{place}.selectivity", f"{text}; leave it out")


def _window(scenario: Scenario, place: str, stage: Stage) -> Iterator[Problem]:
    """Windows follow the watermark, and count records that the emulation makes."""
    own, edges = scenario.window_of(stage.name), scenario.inputs(stage.name)
    if own is None:
        return
    if own.trigger == "processing_time" or not (own.is_event_time or own.kind == "global"):
        text = "its windows follow the watermark, not the clock; use trigger: event_time"
        yield Problem(f"{place}.window.trigger", text)
    if own.kind == "global" and own.trigger == "continuous":
        text = "continuous_s: Flink counts it from 1970, the emulation from the start; use count"
        yield Problem(f"{place}.window.trigger", text)
    if own.trigger == "count" and own.kind != "global" and not own.is_accumulating:
        text = "false: what a count leaves over in a window is not known to the program; use true"
        yield Problem(f"{place}.window.accumulate", text)
    if stage.requests is not None:
        text = "the program has a window or requests in a stage; use two stages"
        yield Problem(f"{place}.requests", text)
    if stage.parallelism > 1 and any(edge.partitioner != "hash" for edge in edges):
        text = "the program brings records to windows of several subtasks by key; use hash"
        yield Problem(f"{place}.window", text)
    if own.keys is None:
        return  # replayed rows, which are refused
    if any(event_time.keys_into(scenario, edge) != _first(scenario, edges) for edge in edges):
        text = "its edges have other keys, which a union does not tell apart; state the same"
        yield Problem(f"{place}.window", text)


def _first(scenario: Scenario, edges: tuple[Edge, ...]) -> object:
    return event_time.keys_into(scenario, edges[0])


def _time_model(scenario: Scenario) -> Iterator[Problem]:
    if scenario.time_model == "spark":
        yield Problem("time_model", "spark: Flink has its own event time; use flink")


def _sizes(scenario: Scenario) -> Iterator[Problem]:
    for number, stage in enumerate(scenario.stages):
        if not scenario.outputs(stage.name) or stage.record_bytes is None:
            continue
        keys = len(keyed(scenario, stage.name))
        own_bytes = KEY_BYTES * (keys + int(saving.has_ids(scenario)))
        least = RECORD_OVERHEAD_BYTES + (STAMP_BYTES + own_bytes if own_bytes else 0)
        if stage.record_bytes < least:
            text = f"{stage.record_bytes}: a byte array with its timestamp"
            text += f" and {keys} {'key' if keys == 1 else 'keys'}" if keys else ""
            text += " and its id" if saving.has_ids(scenario) else ""
            yield Problem(
                f"stages[{number}].record_bytes", f"{text} is {least} bytes at least; state that"
            )


def _edges(scenario: Scenario) -> Iterator[Problem]:
    for number, edge in enumerate(scenario.edges):
        place = f"edges[{number}]"
        if edge.input:
            text = f"{edge.input}: its operators have one input; use input 0, a union"
            yield Problem(f"{place}.input", text)
        if edge.partition_type in SPILLING:
            text = f"{edge.partition_type}: the program streams; use pipelined_bounded"
            yield Problem(f"{place}.partition_type", text)


_ALL: tuple[Callable[[Scenario], Iterator[Problem]], ...] = (
    *(_system, _cluster, _jobs, _planted, _mode, _time_model, _stages, _sizes, _edges),
)
