"""All rules of thumb that say which changes to try; none is advice until it was run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from flowcontrol.experiments.advise.changes import Change, Subject
from flowcontrol.experiments.advise.option_changes import (
    batch_changes,
    buffer_changes,
    checkpoint_changes,
    system_changes,
    timeout_changes,
)
from flowcontrol.experiments.advise.stage_changes import (
    parallelism_changes,
    partitioner_changes,
    placement_changes,
    slot_changes,
)

Rule = Callable[[Subject], Iterator[Change]]
"""Yields changes that one thing suggests."""

RULES: Final[tuple[Rule, ...]] = (
    parallelism_changes,
    partitioner_changes,
    placement_changes,
    slot_changes,
    batch_changes,
    buffer_changes,
    timeout_changes,
    checkpoint_changes,
    system_changes,
)


def changes_of(subject: Subject, rules: Sequence[Rule] = RULES) -> list[Change]:
    """Return the changes to try, in a fixed order, none twice."""
    found = [change for rule in rules for change in rule(subject)]
    return list({change.text: change for change in reversed(found)}.values())[::-1]
