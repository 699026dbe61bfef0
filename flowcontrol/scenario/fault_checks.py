"""Checks of savepoints, failures and state against the run, the job and the system's barriers."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Final

from flowcontrol.errors import Problem
from flowcontrol.scenario.fault_tolerance import Failure, Savepoint
from flowcontrol.scenario.models import Cluster, Edge
from flowcontrol.scenario.options import NetworkOptions
from flowcontrol.scenario.problems import key_path, known
from flowcontrol.scenario.stage_models import Stage
from flowcontrol.scenario.system import ALIASES, PRESETS, SystemSpec

_MODE: Final = "execution.checkpointing.mode"
_UNALIGNED: Final = "execution.checkpointing.unaligned.enabled"


def check_barriers(
    name: object,
    system: SystemSpec,
    options: NetworkOptions,
    *,
    has_savepoints: bool,
    has_failures: bool,
) -> Iterator[Problem]:
    """Refuse checkpoints, and failures, of a system that has no barriers for them.

    - ``name``: ``system`` in the file: the name of one, or its parts.
    - ``has_savepoints``, ``has_failures``: whether the file has some.
    """
    has_checkpoints = has_savepoints or options.checkpoint_interval_us is not None
    if not (has_checkpoints or has_failures):
        return
    preset = PRESETS.get(ALIASES.get(str(name), str(name))) if isinstance(name, str) else None
    mode = options.checkpoint_mode
    if preset is not None and not preset.barriers:
        what = "checkpoints" if has_checkpoints else "failures"
        text = f"{name!r} has no barriers, which {what} here need ({preset.checkpoints}): use "
        yield Problem("system", f"{text}{', '.join(_with_barriers(mode))}, or leave the {what} out")
    elif has_checkpoints:
        if preset is not None and mode not in preset.barriers:
            text = f"{mode!r}: {name!r} has only {preset.checkpoints}: use "
            text += f"{' or '.join(preset.barriers)}, or a system that has it: "
            yield Problem(key_path(["options", _MODE]), text + ", ".join(_with_barriers(mode)))
        yield from _of_records(system, options)


def _of_records(system: SystemSpec, options: NetworkOptions) -> Iterator[Problem]:
    """Refuse barriers that a transport of records cannot carry."""
    if not system.counts_records:
        return
    transport, is_exact = system.transport, options.checkpoint_mode == "exactly_once"
    if options.unaligned_enabled and is_exact:
        text = f"true: no barrier overtakes in the queues of {transport!r}: use false, or the "
        yield Problem(key_path(["options", _UNALIGNED]), text + "transport credit")
    if transport == "hop_hysteresis" and is_exact:
        text = f"{transport!r}: one switch stops all senders of a task, so records that wait "
        text += "behind a barrier would stop those whose barriers are missing, for ever: use "
        text += f"blocking_queue, or {_MODE} AT_LEAST_ONCE"
        yield Problem("system.transport", text)


def _with_barriers(mode: str) -> list[str]:
    return [name for name, preset in PRESETS.items() if mode in preset.barriers]


_CUSTOM = (
    "Unaligned checkpoints are currently not supported for custom partitioners, as rescaling is "
    "not guaranteed to work correctly. The user can force Unaligned Checkpoints by using "
    "'execution.checkpointing.unaligned.forced'"
)
"""Flink's words (``StreamingJobGraphGenerator.preValidate``)."""


def check_times(
    savepoints: Sequence[Savepoint],
    failures: Sequence[Failure],
    duration_s: float,
    problems: list[Problem],
) -> None:
    """Refuse savepoints and failures outside the run, out of order, or stated twice.

    ``problems``: grows by everything that is wrong.
    """
    for key, items in (("savepoints", savepoints), ("failures", failures)):
        times = [item.at_s for item in items]
        for index, at_s in enumerate(times):
            if at_s >= Fraction(repr(duration_s)):
                text = f"{float(at_s):g} is not before the end of the run, {duration_s:g}"
                text = f"{text}: choose an earlier time, or raise duration_s"
                problems.append(Problem(f"{key}[{index}].at_s", text))
        for index, (before, after) in enumerate(pairwise(times), 1):
            if after < before:
                text = f"{float(after):g} is before {float(before):g}, the time of the one above"
                text = f"{text}: write them in the order of time"
                problems.append(Problem(f"{key}[{index}].at_s", text))
    problems += _doubled_savepoints(savepoints)
    seen: dict[tuple[Fraction, str], int] = {}
    for index, failure in enumerate(failures):
        first = seen.setdefault((failure.at_s, failure.victim), index)
        if first != index:
            text = f"{failure.victim} fails at {float(failure.at_s):g} s in failures[{first}] too"
            problems.append(Problem(f"failures[{index}]", f"{text}: keep one of them"))


def _doubled_savepoints(savepoints: Sequence[Savepoint]) -> Iterator[Problem]:
    for index, (before, after) in enumerate(pairwise(savepoints), 1):
        if after.at_s == before.at_s:
            text = f"{float(after.at_s):g} is the time of savepoints[{index - 1}] too"
            yield Problem(f"savepoints[{index}].at_s", f"{text}: keep one of them")
        elif before.stop and after.at_s > before.at_s:
            text = f"the savepoint at {float(before.at_s):g} s stops the job"
            text = f"{text}: take stop out of it, or leave out what follows"
            yield Problem(f"savepoints[{index}]", text)


def check_failures(
    failures: Sequence[Failure],
    cluster: Cluster,
    names: Sequence[str],
    stages: Mapping[str, Stage],
    problems: list[Problem],
) -> None:
    """Refuse a failure of something that is not there.

    - ``stages``: those that could be read, by name.
    - ``problems``: grows by everything that is wrong.
    """
    for index, failure in enumerate(failures):
        for key, text in failure.contradictions():
            problems.append(Problem(f"failures[{index}]{'.' * bool(key)}{key}", text))
        machine, managers = failure.task_manager, cluster.task_managers
        if machine is not None and machine >= managers:
            text = f"{machine} is not a task manager: there are {managers}, from 0"
            problems.append(Problem(f"failures[{index}].task_manager", text))
        if failure.stage is None:
            continue
        stage = stages.get(failure.stage)
        if failure.stage not in names:
            text = known(failure.stage, [name for name in names if name], "stage")
            problems.append(Problem(f"failures[{index}].stage", text))
        elif stage and failure.subtask is not None and failure.subtask >= stage.parallelism:
            text = f"{failure.subtask} is not a subtask of {failure.stage!r}: there are"
            text = f"{text} {stage.parallelism}, from 0"
            problems.append(Problem(f"failures[{index}].subtask", text))


def check_state(
    stages: Sequence[tuple[int, Stage]], edges: Sequence[Edge], problems: list[Problem]
) -> None:
    """Refuse state for each key of a stage whose keys nobody knows.

    ``problems``: grows by everything that is wrong.
    """
    keyed = {
        edge.receiver
        for edge in edges
        if edge.partitioner == "hash" and edge.channel_weights is None
    }
    for index, stage in stages:
        if stage.state is not None and stage.state.bytes_per_key and stage.name not in keyed:
            text = f"{stage.state.bytes_per_key}: no edge brings keys to {stage.name!r}"
            text = f"{text}: use hash with key_weights, key_distribution or key, or state bytes"
            problems.append(Problem(f"stages[{index}].state.bytes_per_key", text))


def check_unaligned(
    options: NetworkOptions, transport: str, edges: Sequence[Edge], problems: list[Problem]
) -> None:
    """Refuse unaligned checkpoints where Flink does, in its words, and before it had them.

    ``problems``: grows by everything that is wrong.
    """
    is_wanted = options.unaligned_enabled and options.checkpoint_interval_us is not None
    if is_wanted and transport == "tcp":
        text = "true: unaligned checkpoints came with Flink 1.11, and the transport tcp is that of"
        text = f"{text} Flink up to 1.4: use false, or the system flink"
        problems.append(Problem(key_path(["options", _UNALIGNED]), text))
    custom = [edge.name for edge in edges if edge.partitioner == "custom"]
    if is_wanted and custom and not options.unaligned_forced:
        text = f"true over {', '.join(custom)}: {_CUSTOM}"
        problems.append(Problem(key_path(["options", _UNALIGNED]), text))
