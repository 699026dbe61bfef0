"""Checks of savepoints, failures and state against the run, the job and the system's barriers."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

from flowcontrol.errors import Problem
from flowcontrol.scenario.fault_tolerance import Failure, Savepoint
from flowcontrol.scenario.models import Cluster, Edge, ScenarioHead
from flowcontrol.scenario.options import NetworkOptions
from flowcontrol.scenario.problems import key_path, known
from flowcontrol.scenario.stage_models import Stage
from flowcontrol.scenario.system import ALIASES, PRESETS, TRANSPORT_PARTS, SystemSpec

_UNALIGNED: Final = "execution.checkpointing.unaligned.enabled"


def barrier_facts(
    name: object, system: SystemSpec, options: NetworkOptions | None, head: ScenarioHead
) -> dict[str, Any]:
    """Return what the rows of ``refusals.yaml`` ask of a file that is being read.

    - ``name``: ``system`` in the file: the name of one, or its parts.
    - ``options``: None: they could not be read.
    """
    read = options or NetworkOptions()
    preset = PRESETS.get(ALIASES.get(str(name), str(name))) if isinstance(name, str) else None
    has_checkpoints = bool(head.savepoints) or read.checkpoint_interval_us is not None
    needs = "checkpoints" if has_checkpoints else "failures" if head.failures else ""
    barriers, mode = () if preset is None else preset.barriers, read.checkpoint_mode
    return {
        "name": name,
        "system": system,
        "options": read,
        "preset": preset,
        "mode": mode,
        "trace": head.trace,
        "transport": TRANSPORT_PARTS[system.transport],
        "scenario": head,
        "needs": needs if options is not None else "",
        "has_barriers": has_checkpoints and (preset is None or barriers),
        "is_exact": mode == "exactly_once",
        "is_periodic": read.checkpoint_interval_us is not None,
        "lacks_mode": mode not in barriers,
        "modes": " or ".join(barriers),
        "with_barriers": ", ".join(n for n, one in PRESETS.items() if mode in one.barriers),
    }


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
                text = f"{text}: list them in order of time"
                problems.append(Problem(f"{key}[{index}].at_s", text))
    problems += _doubled_savepoints(savepoints)
    seen: dict[tuple[Fraction, str], int] = {}
    for index, failure in enumerate(failures):
        first = seen.setdefault((failure.at_s, failure.victim), index)
        if first != index:
            text = f"{failure.victim} already fails at {float(failure.at_s):g} s"
            problems.append(
                Problem(f"failures[{index}]", f"{text} in failures[{first}]: keep one of them")
            )


def _doubled_savepoints(savepoints: Sequence[Savepoint]) -> Iterator[Problem]:
    for index, (before, after) in enumerate(pairwise(savepoints), 1):
        if after.at_s == before.at_s:
            text = f"{float(after.at_s):g} is also the time of savepoints[{index - 1}]"
            yield Problem(f"savepoints[{index}].at_s", f"{text}: keep one of them")
        elif before.stop and after.at_s > before.at_s:
            text = f"the savepoint at {float(before.at_s):g} s stops the job"
            text = f"{text}: remove its stop, or the savepoints after it"
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
    options: NetworkOptions, edges: Sequence[Edge], problems: list[Problem]
) -> None:
    """Refuse unaligned checkpoints over custom partitioners, in Flink's words.

    ``problems``: grows by everything that is wrong.
    """
    is_wanted = options.unaligned_enabled and options.checkpoint_interval_us is not None
    custom = [edge.name for edge in edges if edge.partitioner == "custom"]
    if is_wanted and custom and not options.unaligned_forced:
        text = f"true over {', '.join(custom)}: {_CUSTOM}"
        problems.append(Problem(key_path(["options", _UNALIGNED]), text))
