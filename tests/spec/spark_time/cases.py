"""Random queries over event time, and what the rules say that each of their batches puts out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from flowcontrol.spec.spark_aggregation import Group, MicroBatch, MicroBatches, SparkAggregation
from modules import load

plain: Any = load("tests/spec/spark_time/plain.py")

Row = tuple[int, str | None]
Batch = list[list[Row]]
"""Rows of each input."""

GAPS: dict[str | None, int] = {"a": 3_000, "b": 1_500, "c": 700, "d": 0, None: 2_000}
"""Gap of a session by its key, ms; the rows of one are left out."""
KEYS = ("a", "b", "c", "d", None)


class Windows(NamedTuple):
    """What a query groups by, as the object takes it."""

    kind: str
    numbers: tuple[int, ...] = ()

    def argument(self) -> Any:
        """Return the argument; a session without a number has the gap of its key."""
        return (self.kind, *self.numbers) if self.numbers else (self.kind, GAPS.get)


@dataclass
class Case:
    """A query, and what comes in which of its runs and batches."""

    windows: Windows
    mode: str
    delays: tuple[int, ...] | None
    policy: str
    is_keyed: bool
    runs: list[list[Batch]]
    """Batches of each run; all but the first go on from the checkpoint of the one before."""
    no_data_batches: bool = True
    multiple: bool = True
    is_stepped: bool = False
    """Each batch waits until nothing is left to do, so that batches without data stand between
    those with data; otherwise they stand at the end of a run."""
    is_once: bool = False
    """The first run is one batch, and none without data after it (``Trigger.Once``). The second
    finds no data: what was due is not made up for."""

    @property
    def inputs(self) -> int:
        """How many streams are united."""
        return len(self.runs[0][0])

    def name(self) -> str:
        """Return a line for a test's output."""
        what = (self.windows, self.mode, self.delays, self.policy)
        more = (f"keyed={self.is_keyed}", f"runs={len(self.runs)}", f"inputs={self.inputs}")
        switches = (self.no_data_batches, self.multiple, self.is_stepped, self.is_once)
        return " ".join(map(str, (*what, *more, *switches)))

    def query(self) -> SparkAggregation:
        """Return the query, before its first batch."""
        windows, switches = self.windows.argument(), (self.no_data_batches, self.multiple)
        return SparkAggregation(self.delays, windows, self.mode, self.policy, *switches)

    def answers(self, restarts: bool = True, query: Any = None) -> list[MicroBatch]:
        """Return what the rules say of each batch.

        Parameters
        ----------
        restarts : bool
            False: each run but the first goes on as if nothing had been forgotten.
        query : SparkAggregation or Plain, optional
            What runs the batches.
        """
        query = query or self.query()
        batches, done = MicroBatches(query), list[MicroBatch]()
        for number, run in enumerate(self.runs):
            if number and restarts:
                query.restart()
            if self.is_once and not number:
                done += filter(None, [batches.trigger(*one) for one in run])
                continue
            for available in [[one] for one in run] if self.is_stepped else [run]:
                done += batches.run_available(available)
        return done

    def keeps_what_it_saw(self) -> bool:
        """Tell whether it is all the same that a restart forgets."""
        return self.answers() == self.answers(restarts=False)

    def joins_too_late(self) -> bool:
        """Tell whether a row is late whose session a session held would take in."""
        return any(
            one.key == late.key and one.start <= late.end and late.start <= one.end
            for lates, held in self._too_late()
            for late in lates
            for one in held
        )

    def drops_apart(self) -> bool:
        """Tell whether rows of two inputs that would be one group are late in the same batch."""
        return any(len({late[:3] for late in lates}) < len(lates) for lates, _ in self._too_late())

    def _too_late(self) -> Iterator[tuple[list[Group], list[Group]]]:
        """Yield what is late in each batch, and what was held before it; restarts left out."""
        query = plain.Plain(self)
        for batch in (batch for run in self.runs for batch in run):
            yield query.late(batch), query.held.groups()
            query.batch(*batch)


FIXED = [
    Windows("tumbling", (2_000,)),
    Windows("tumbling", (5_000, -700)),
    Windows("sliding", (4_000, 1_000)),
    Windows("sliding", (3_000, 2_000, 500)),
]
SESSIONS = [Windows("session", (1_500,)), Windows("session")]
FORMS = [
    *product(("tumbling", "sliding"), ("append", "update", "complete")),
    *product(("session",), ("append", "complete")),
]
"""Every kind of window with each mode that Spark has for it."""


def draw(seed: int) -> Iterator[Case]:
    """Yield random cases without end: each form in turn, and each with one and with two inputs."""
    chance = random.Random(seed)
    for policy in _forever("min", "max"):
        for inputs in (1, 2):
            for kind, mode in FORMS:
                yield _case(chance, kind, mode, inputs, policy)


def _forever(*values: str) -> Iterator[str]:
    while True:
        yield from values


def _case(chance: random.Random, kind: str, mode: str, inputs: int, policy: str) -> Case:
    windows = chance.choice([one for one in FIXED + SESSIONS if one.kind == kind])
    is_keyed = kind == "session" or chance.random() < 0.5
    batches = _batches(chance, inputs, is_keyed, chance.choice((3, 4, 4)))
    case = Case(windows, mode, _delays(chance, inputs), policy, is_keyed, [batches])
    if inputs == 1 and chance.random() < 0.3:
        case.is_stepped = True
    elif chance.random() < 0.4:
        case.is_once = chance.random() < 0.3
        cut = 1 if case.is_once else chance.randrange(1, len(batches))
        if inputs > 1 and chance.random() < 0.8:
            # What the faster input had seen is forgotten: that matters until it has rows again.
            seen = [[time for batch in batches[:cut] for time, _ in batch[at]] for at in (0, 1)]
            batches[cut][seen.index(max(seen, key=lambda times: max(times, default=-9_999)))] = []
        case.runs = [batches[:cut], *([[]] if case.is_once else []), batches[cut:]]
    if chance.random() < 0.15:
        case = replace(case, no_data_batches=False)
    if chance.random() < 0.25:
        case = replace(case, multiple=False)
    if mode == "update" and chance.random() < 0.2:
        case = replace(case, delays=None)
    return case


def _delays(chance: random.Random, inputs: int) -> tuple[int, ...]:
    return tuple(chance.choice((0, 300, 1_000, 2_500)) for _ in range(inputs))


def _batches(chance: random.Random, inputs: int, is_keyed: bool, number: int) -> list[Batch]:
    """Rows around a time that moves on, with some far behind and batches without any."""
    # Some begin before 1970, where a watermark of 0 has everything late.
    now = [chance.choice((-4_000, 0, 20_000)) + chance.randrange(3_000) for _ in range(inputs)]
    batches = list[Batch]()
    for _ in range(number):
        batch = list[list[Row]]()
        for at in range(inputs):
            now[at] += chance.choice((0, 500, 1_000, 2_500, 4_000))
            count = chance.choice((0, 1, 3, 5, 8))
            times = [
                now[at] - chance.choice((0, 0, 400, 1_000, 3_000, 9_000)) for _ in range(count)
            ]
            # Whole multiples meet the ends of windows.
            times = [time - time % 500 if chance.random() < 0.5 else time for time in times]
            rows = [(time, chance.choice(KEYS) if is_keyed else None) for time in times]
            # Some rows twice, and some in both streams.
            batch.append(rows + rows[:1] * chance.choice((0, 0, 1)) + (batch[0][:2] if at else []))
        batches.append(batch)
    return batches
