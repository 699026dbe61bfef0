"""Refusals, row by row: by a clock or a system (``refusals.yaml``), or by other keys.

``checks.yaml`` has what contradicts what in a scenario, ``refusals.yaml`` what is not emulated.
Whoever makes a clock or a system do something takes its row out, or leaves the clock that does not.
"""

import operator
import string
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Literal

from flowcontrol.errors import Problem
from flowcontrol.scenario.problems import show
from flowcontrol.scenario.syntax import read_table

Clock = Literal["live", "virtual"]
Facts = Mapping[str, Any]
"""What a row may ask for and show, by name."""
Finder = Callable[[Any], Iterable[dict[str, Any]]]
"""Given a scenario, yields the facts of each of its parts that rows look at."""

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True)
class _Term:
    """A condition: a fact or an attribute of one, which is there, is not, or compares so."""

    path: tuple[str, ...]
    holds: Callable[[Any, Any], bool]
    other: int | str = ""  # What it is compared with

    @classmethod
    def read(cls, text: str) -> "_Term":
        """Return a term as the table has it: ``a.b``, ``not a.b`` or ``a.b == word``."""
        path, sign, other = (*text.removeprefix("not ").split(), "", "")[:3]
        value = int(other) if other.isdecimal() else other
        is_there = operator.not_ if text.startswith("not ") else bool
        holds = _OPERATORS[sign] if sign else lambda found, _: is_there(found)
        return cls(tuple(path.split(".")), holds, value)

    def is_met(self, facts: Facts) -> bool:
        """Tell whether it holds; an attribute of None is None."""
        found = facts[self.path[0]]
        for name in self.path[1:]:
            found = None if found is None else getattr(found, name)
        return self.holds(found, self.other)


def _terms(text: str) -> tuple[_Term, ...]:
    return tuple(map(_Term.read, filter(None, text.split(" and "))))


class _Texts(string.Formatter):
    """Texts with facts in braces: exact numbers as the doubles they are, ``!y`` as in YAML."""

    def format_field(self, value: Any, format_spec: str) -> str:
        shown = float(value) if isinstance(value, Fraction) else value
        return str(super().format_field(shown, format_spec))

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return show(value) if conversion == "y" else super().convert_field(value, conversion)


_TEXTS: Final = _Texts()


@dataclass(frozen=True, kw_only=True)
class Row:
    """Something that is refused; texts have facts in braces."""

    name: str
    feature: str
    clock: Literal["any", "live", "virtual", "reading"] = "any"  # reading: before there is a clock
    each: str = ""  # Finder of the parts that it looks at; empty: the scenario as a whole
    when: str = ""  # Terms, with ``and`` between them; empty: always
    is_last: bool = False  # Only where no row of the feature above is met
    at: str  # Place of the refusal
    what: str = ""  # What is not emulated, value first, verb last
    instead: str = ""  # What to do instead
    text: str = ""  # The whole message, in the place of ``what`` and ``instead``
    because: str = ""  # Why not on one clock and on the other
    changes: dict[str, Any] = field(default_factory=dict)  # To a scenario that asks for it
    terms: tuple[_Term, ...]

    def problems(self, facts: Facts, finders: Mapping[str, Finder]) -> Iterator[Problem]:
        """Yield a problem for each place at which a scenario asks for it."""
        for own in finders[self.each](facts["scenario"]) if self.each else ({},):
            both = ChainMap(own, facts)  # type: ignore[arg-type]
            if all(term.is_met(both) for term in self.terms):
                yield Problem(_TEXTS.vformat(self.at, (), both), self._message(both))

    def _message(self, facts: Facts) -> str:
        if self.text:
            return _TEXTS.vformat(self.text, (), facts)
        name = "any clock" if self.clock == "any" else f"the {self.clock} clock"
        text = f"{self.what} not emulated on {name} yet: {self.instead}"
        return _TEXTS.vformat(text, (), facts) + ", or use --clock virtual" * (self.clock == "live")


FEATURES: Final = read_table("refusals.yaml")
"""Title, changes to a small scenario that has it, and rows of each feature."""


def _rows() -> Iterator[Row]:
    for feature, said in FEATURES.items():
        for name, row in said.get("rows", {}).items():
            changes, terms = row.get("with", {}), _terms(row.get("when", ""))
            own = {key: value for key, value in row.items() if key != "with"}
            yield Row(name=name, feature=feature, changes=changes, terms=terms, **own)


ROWS: Final = tuple(_rows())


def refused(
    clock: str, facts: Facts, finders: Mapping[str, Finder] | None = None
) -> Iterator[tuple[Row, Problem]]:
    """Yield each row that a scenario asks for, and its problem.

    ``clock``: ``live``, ``virtual`` or, while a file is read, ``reading``.
    """
    met = set[str]()
    for row in ROWS:
        is_asked = row.clock == clock or (row.clock == "any" and clock != "reading")
        if is_asked and not (row.is_last and row.feature in met):
            for problem in row.problems(facts, finders or {}):
                met.add(row.feature)
                yield row, problem


class _Facts(dict[str, Any]):
    """Facts by name; what is not among them is an attribute of an object."""

    def __init__(self, of: object, facts: Facts) -> None:
        super().__init__(facts)
        self.of = of

    def __missing__(self, name: str) -> Any:
        return getattr(self.of, name)


_CHECKS: Final = {
    group: [(_terms(row["when"]), row.get("at", ""), row["text"]) for row in rows]
    for group, rows in read_table("checks.yaml").items()
    if group != "together"
}


def faults(group: str, of: object, /, **facts: Any) -> Iterator[tuple[str, str]]:
    """Yield key and refusal of each row of a group of ``checks.yaml`` that is met.

    ``of``: its attributes are facts, beside those given.
    """
    own = _Facts(of, facts)
    for terms, at, text in _CHECKS[group]:
        if all(term.is_met(own) for term in terms):
            yield _TEXTS.vformat(at, (), own), _TEXTS.vformat(text, (), own)
