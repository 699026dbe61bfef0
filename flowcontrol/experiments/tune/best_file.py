"""``best.yaml``: the chosen scenario as a file, with comments on what was changed and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

import yaml

from flowcontrol.errors import Problem
from flowcontrol.experiments.sweep.varied import show_value
from flowcontrol.experiments.tune.wording import counts, figure_text, gain_text, limit_text
from flowcontrol.scenario.given import apply_overrides
from flowcontrol.scenario.problems import key_path

if TYPE_CHECKING:
    from flowcontrol.experiments.tune.result import Tuning

_WIDTH: Final = 96
_MARK: Final = "flowcontrol-tuned-value-{}-"
"""Stands for a changed value while the file is written; no scenario has such a text."""


def best_text(tuning: Tuning) -> str:
    """Return the file of the chosen scenario."""
    best = tuning.verdict.best
    if best is None:
        raise ValueError("no point satisfies the constraints: there is no best scenario")
    varied = tuning.plan.sweep.varied
    paths = [one.path for one in varied]
    marks = [_MARK.format(number) for number in range(len(paths))]
    text = yaml.safe_dump(
        _changed(tuning, list(zip(paths, marks, strict=True))), sort_keys=False, allow_unicode=True
    )
    for mark, one, value in zip(marks, varied, best.point, strict=True):
        written = json.dumps(value)
        text = text.replace(mark, f"{written}{_beside(tuning, one.path, value)}")
    head = "".join(f"# {line}".rstrip() + "\n" for line in _head(tuning))
    return f"{head}{text}"


def _changed(tuning: Tuning, changes: Sequence[tuple[tuple[str, ...], str]]) -> dict[str, Any]:
    problems: list[Problem] = []
    overrides = [f"{key_path(list(path))}={json.dumps(value)}" for path, value in changes]
    return apply_overrides(dict(tuning.plan.base.mapping), overrides, problems)


def _beside(tuning: Tuning, path: tuple[str, ...], value: Any) -> str:
    """Return the comment beside a value: what the scenario as given has."""
    found = _at(tuning.plan.base.mapping, path)
    if found is None:
        return "  # chosen; not stated before"
    if found == value:
        return "  # chosen; as before"
    return f"  # chosen; before: {show_value(found)}"


def _at(mapping: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """Return the value of a key of a file; None if it has none."""
    found: Any = mapping
    for part in path:
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, list):
            named = [one for one in found if isinstance(one, Mapping) and one.get("name") == part]
            at = int(part) if part.isdecimal() else -1
            found = named[0] if named else found[at] if 0 <= at < len(found) else None
        else:
            return None
    return found


def _head(tuning: Tuning) -> Iterator[str]:
    """Yield the lines of the comment at the top."""
    goals, best, given = tuning.plan.goals, tuning.verdict.best, tuning.given
    if best is None:
        return
    aims = [f"{one.direction} {one.measure.name}" for one in goals.objectives]
    aims += [limit_text(one) for one in goals.constraints]
    yield from wrap(f"{tuning.name}, tuned by flowcontrol tune: {'; '.join(aims)}.", _WIDTH)
    yield ""
    for one in tuning.measures:
        yield f"{one.name}: {figure_text(one, best.value(one))}" + (
            "" if given is None else f"; as given {figure_text(one, given.value(one))}"
        )
    yield ""
    if given is not None:
        for objective in goals.objectives:
            before, after = given.value(objective.measure), best.value(objective.measure)
            yield from wrap(f"{gain_text(objective, before, after)}.", _WIDTH)
    yield from wrap(f"{counts(tuning)} Seed {tuning.plan.seed}.", _WIDTH)
