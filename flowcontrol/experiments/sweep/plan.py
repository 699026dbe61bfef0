"""The plan of a sweep: the points of the product of all values, and their replications.

The scenarios are checked in :mod:`flowcontrol.experiments.sweep.variants`.
"""

import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.sweep.columns import fixed
from flowcontrol.experiments.sweep.varied import (
    MAX_POINTS,
    Varied,
    label_of,
    name_columns,
    plain_values,
    read_values,
    show_value,
    split_assignment,
)
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import Base, read_path
from flowcontrol.scenario.problems import key_path

Point = tuple[Any, ...]

Vary = str | Mapping[str, Any] | Sequence[str | tuple[str, Any]]
"""Keys with their values, of a text or an iterable; or ``KEY=VALUES`` each."""


@dataclass(frozen=True)
class Plan:
    """The points and replications of a sweep."""

    base: Base  # The scenario
    varied: tuple[Varied, ...]  # The varied keys; at least one
    replications: int = 1  # Runs of each point, with seeds one after the other
    sample: int | None = None  # Points drawn from the product; None: all of them
    seed: int = 1  # Of that draw, and of the order of the variants

    @property
    def product(self) -> int:
        """Points of the product of all values."""
        return math.prod(len(varied.values) for varied in self.varied)

    @property
    def size(self) -> int:
        """Points that are run."""
        return self.product if self.sample is None else self.sample

    def points(self) -> Iterator[Point]:
        """Yield the points, a value of each varied key, the last key changing fastest."""
        numbers: Sequence[int] = range(self.product)
        if self.sample is not None:
            numbers = sorted(random.Random(self.seed).sample(numbers, self.sample))
        for number in numbers:
            yield self._point(number)

    def _point(self, number: int) -> Point:
        values = []
        for varied in reversed(self.varied):
            number, index = divmod(number, len(varied.values))
            values.append(varied.values[index])
        return tuple(reversed(values))

    def scenario(self, point: Point, seed: int | None = None) -> Scenario:
        """Return the scenario of a point; without a seed that of the file stays.

        Raises ScenarioError with every problem of the scenario.
        """
        paths = [varied.path for varied in self.varied]
        changes: list[tuple[tuple[str, ...], Any]] = [*zip(paths, point, strict=True)]
        return self.base.scenario(changes if seed is None else [*changes, (("seed",), seed)])

    def text(self, point: Point) -> str:
        """Return a point in words: ``buffers-per-channel=2, sink service_rate=1000``."""
        pairs = zip(self.varied, point, strict=True)
        return ", ".join(f"{varied.label}={show_value(value)}" for varied, value in pairs)


def make_plan(
    base: Base, vary: Vary, *, replications: int = 1, sample: int | None = None, seed: int = 1
) -> Plan:
    """Read the varied keys and their values.

    - ``vary``: keys with their values: a text as on the command line, or an iterable; or both in a
      text.
    - ``replications``: runs of each point.

    Its scenarios are not checked. Raises ScenarioError with every problem of these
    arguments.
    """
    problems: list[Problem] = []
    varied, is_whole = read_varied(base, vary, problems)
    plan = Plan(base, varied, replications, sample, seed)
    problems += _refusals(plan, is_whole=is_whole)
    if problems:
        raise ScenarioError(problems, "command")
    return plan


def read_varied(
    base: Base, vary: Vary, problems: list[Problem], reserved: Collection[str] = ()
) -> tuple[tuple[Varied, ...], bool]:
    """Read the varied keys and their values.

    - ``vary``: keys with their values: a text as on the command line, or an iterable; or both in a
      text.
    - ``problems``: grows by what is wrong with them.
    - ``reserved``: names that no column of theirs gets, beside those of a sweep's table.

    ``is_whole`` says whether these are all of them.
    """
    given = [vary] if isinstance(vary, str) else vary
    pairs = list(given.items() if isinstance(given, Mapping) else given)
    found = [_read_one(pair, base, problems) for pair in pairs]
    read = [pair for pair in found if pair is not None]
    paths = [path for path, _ in read]
    problems += [
        Problem(f"--vary {key_path(path)}", "is varied twice: state all of its values once")
        for path in dict.fromkeys(paths)
        if paths.count(path) > 1
    ]
    return _named(read, (*fixed(), *reserved)), len(read) == len(pairs)


def _read_one(
    pair: tuple[str, Any] | str, base: Base, problems: list[Problem]
) -> tuple[tuple[str, ...], tuple[Any, ...]] | None:
    key = ""
    try:
        key, values = split_assignment(pair) if isinstance(pair, str) else pair
        path = read_path(key, base.mapping)
        read = read_values(values) if isinstance(values, str) else plain_values(values)
    except (ValueError, TypeError) as error:
        problems.append(Problem(f"--vary {key}".rstrip(), str(error)))
        return None
    return path, read


def _named(
    read: Sequence[tuple[tuple[str, ...], tuple[Any, ...]]], reserved: Collection[str]
) -> tuple[Varied, ...]:
    """Give each varied key a column and a label of its own."""
    paths = [path for path, _ in read]
    labels = [label_of(path) for path in paths]
    columns = name_columns(paths, reserved)
    return tuple(
        Varied(path, values, column, label if labels.count(label) == 1 else key_path(path))
        for (path, values), column, label in zip(read, columns, labels, strict=True)
    )


def divided_totals(base: Base, varied: Sequence[Varied]) -> Iterator[str]:
    """Yield a sentence for each stage whose subtasks are varied while its ``total_rate`` stays.

    The total is divided among them, so that more subtasks carry no more, and less where records
    are uneven. Sources have it so, and a stage that says so itself: ``external``.
    """
    paths = {one.path for one in varied}
    edges = base.mapping.get("edges")
    receivers = {edge.get("to") for edge in edges or () if isinstance(edge, Mapping)}
    for kind, name, key in (path for path in paths if len(path) == 3):
        items = base.mapping.get(kind)
        own: Mapping[str, Any] = next((one for one in items or () if _is_named(one, name)), {})
        total, count = own.get("total_rate"), own.get("parallelism", 1)
        is_told = own.get("external") or (kind, name, "total_rate") in paths
        if key != "parallelism" or total is None or is_told or name not in receivers:
            continue
        text = f"{name}: its total_rate is divided, so that more subtasks are each slower"
        if isinstance(total, int | float) and isinstance(count, int):
            text += f"; if each keeps its speed, add --set {name}.total_rate=null "
            text += f"--set {name}.service_rate={total / count:g}"
        yield f"{text}; if a service outside sets it, add --set {name}.external=true"


def _is_named(item: object, name: str) -> bool:
    return isinstance(item, Mapping) and item.get("name") == name


def _refusals(plan: Plan, *, is_whole: bool) -> Iterator[Problem]:
    """Yield the problems of a plan's numbers; of its size only if all keys were read."""
    if not plan.varied and is_whole:
        yield Problem("--vary", "nothing is varied: name at least one key, --vary KEY=VALUES")
    if plan.replications < 1:
        yield Problem("--replications", f"{plan.replications}: state at least 1")
    if plan.sample is not None and plan.sample < 1:
        yield Problem("--sample", f"{plan.sample}: state at least 1")
    if plan.replications > 1 and any(varied.path == ("seed",) for varied in plan.varied):
        text = f"{plan.replications} runs with seeds of their own, and seed is varied: state one"
        yield Problem("--replications", text)
    if not is_whole or not plan.varied:
        return
    if plan.sample is not None and plan.sample > plan.product:
        text = f"{plan.sample:,}: there are only {plan.product:,} points: leave it out"
        yield Problem("--sample", text)
    variants = plan.size * max(1, plan.replications)
    if variants > MAX_POINTS:
        text = f"{variants:,} variants are more than {MAX_POINTS:,}: state fewer values"
        yield Problem("--vary", f"{text}, or draw some of them with --sample")
