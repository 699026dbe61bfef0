"""The causes of a run, from its tables."""

from __future__ import annotations

from flowcontrol.analysis.bottleneck import Bottleneck, find_bottleneck
from flowcontrol.analysis.causes.cause import Cause, Word
from flowcontrol.analysis.frames import Tables
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.partitions import SPILLING


def find_causes(tables: Tables, scenario: Scenario) -> list[Cause]:
    """Return why a run was slow.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        ``stages`` and ``channels`` of the run.
    scenario : Scenario
        What was run. Only what a user of a real job knows of it is read: graph, placement,
        machines and options, no rates and nothing that was planted.

    Returns
    -------
    list of Cause
        The strongest first; one with the cause ``none`` if nothing limited.
    """
    found = find_bottleneck(tables, scenario)
    stage, word = _word(found, scenario)
    subtask = found.subtasks[0] if len(found.subtasks) == 1 else None
    return [
        Cause(
            stage=stage,
            subtask=subtask,
            cause=word,
            evidence=(found.sentence,),
            confidence=0.5,
            reason="the place is known, what it waits for is not measured",
            limited_s=found.limited_s,
        )
    ]


def _word(found: Bottleneck, scenario: Scenario) -> tuple[str | None, Word]:
    """Return stage and word for a bottleneck."""
    if found.throttle is not None:
        return None, "throttle"
    for edge in scenario.edges:
        if edge.name == found.edge:
            is_disk = edge.partition_type in SPILLING
            return edge.receiver, "disk" if is_disk else "network"
    if found.stage is None:
        return None, "none"
    return found.stage, "source" if scenario.stage(found.stage).reads_log else "operator"
