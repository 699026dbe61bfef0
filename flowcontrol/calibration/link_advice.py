"""Advice on a link: what its ledger suggests, tried out on the scenario that it makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.calibration import rates
from flowcontrol.calibration.batches import read_progress
from flowcontrol.calibration.draft import Cost, Draft
from flowcontrol.calibration.link_ledger import fit_link, link_load
from flowcontrol.calibration.spark_progress import cost_of
from flowcontrol.experiments.advise import Advice, advise
from flowcontrol.experiments.advise.result import Change
from flowcontrol.link.members import ranges
from flowcontrol.report.markup import percent

if TYPE_CHECKING:
    from flowcontrol.calibration.link_ledger import LinkLoad
    from flowcontrol.experiments.advise.result import Goal, KeyPath, Subject


# --- What the ledger of a link suggests: receivers, channels, another key, larger batches.


HOT: Final = 1.5
"""Times the mean of all channels from which a channel is hot."""

_MEMORY: Final = "taskmanager.network.memory."
_LIMITLESS: Final = 1e9
"""Rate of a receiver that nothing is known of."""


class LinkRules:
    """What the ledger of a link suggests.

    ``load``: rows by channel, and who reads them.
    """

    def __init__(self, load: LinkLoad, batch: tuple[Cost, float] | None) -> None:
        self.load, self.batch = load, batch

    def changes(self, subject: Subject) -> Iterator[Change]:
        """Yield changes of the scenario that stand for changes of the link."""
        receiver = subject.scenario.sinks[0].name
        yield from self._more_receivers(subject, receiver)
        yield from self._hot_channel(subject, receiver)
        yield from self._even(subject, receiver)
        yield from self._batches(subject, receiver)

    def _more_receivers(self, subject: Subject, receiver: str) -> Iterator[Change]:
        """Yield more receivers, the channels divided evenly; more channels if these do not do."""
        now, channels = len(self.load.readers), len(self.load.rows)
        for count in (now + 1, 2 * now):
            size = channels if count <= channels else 2 * count
            parts = [range(at * size // count, (at + 1) * size // count) for at in range(count)]
            listed = ", ".join(f"[{ranges(part)}]" for part in parts)
            name = f"{count} receivers instead of {now}, of channels {listed}"
            if size > channels:
                name += f", and channels={size} instead of {channels}"
            rows = self._rows(parts, size)
            yield self._divided(subject, receiver, rows, name, "they read side by side")

    def _hot_channel(self, subject: Subject, receiver: str) -> Iterator[Change]:
        """Yield a receiver of its own for a channel with far more rows than the others."""
        rows = self.load.rows
        total = sum(rows.values())
        hot = max(rows, key=lambda channel: rows[channel])
        if len(rows) < 2 or rows[hot] * len(rows) <= HOT * total:
            return
        others = [[channel for channel in one if channel != hot] for one in self.load.readers]
        parts = [[hot], *(part for part in others if part)]
        name = f"a receiver of its own for channel {hot}"
        why = f"it carries {percent(rows[hot] / total)} of the rows"
        yield self._divided(subject, receiver, self._rows(parts, len(rows)), name, why)

    def _even(self, subject: Subject, receiver: str) -> Iterator[Change]:
        """Yield rows that are spread evenly over the receivers there are."""
        count = len(self.load.readers)
        if self.load.settings.key is not None and count > 1:
            keys = tuple(self._spread(subject, [1.0] * count))
            caution = "A link keeps its key: make a new one, and let this one run empty."
            name = "another key, or none, so that each receiver has as many rows"
            yield Change("key", name, keys, "its key sends some more than others", (caution,))

    def _batches(self, subject: Subject, receiver: str) -> Iterator[Change]:
        """Yield twice and half the buffers: larger and smaller batches."""
        own, options = self.load.settings, subject.scenario.options
        now = {
            "buffers-per-channel": options.exclusive_buffers,
            "floating-buffers-per-gate": options.floating_buffers,
            "max-buffers-per-channel": options.max_buffers_per_channel,
        }
        for factor in (2.0, 0.5):
            keys: list[tuple[KeyPath, Any]] = [
                (("options", _MEMORY + key), max(1, round(factor * count)))
                for key, count in now.items()
            ]
            keys += self._rate(subject, receiver, factor)
            exclusive = max(1, round(factor * own.exclusive_buffers))
            floating = round(factor * own.floating_buffers)
            name = f"exclusive_buffers={exclusive} and floating_buffers={floating}"
            name += f" instead of {own.exclusive_buffers} and {own.floating_buffers}"
            why = "batches of twice the rows" if factor > 1 else "batches of half the rows"
            yield Change("batches", name, tuple(keys), why)

    def _rows(self, parts: Sequence[Sequence[int]], channels: int) -> list[float]:
        """Return the rows of each part of the channels; of more channels rows are spread anew."""
        total = sum(self.load.rows.values())
        if channels > len(self.load.rows):
            return [total * len(part) / channels for part in parts]
        return [sum(self.load.rows[channel] for channel in part) for part in parts]

    def _divided(
        self, subject: Subject, receiver: str, rows: Sequence[float], name: str, why: str
    ) -> Change:
        """Return the change to receivers with so many rows each."""
        count = len(rows)
        keys: list[tuple[KeyPath, Any]] = [
            (subject.path(receiver, "parallelism"), count),
            (subject.path(receiver, "service_rate"), _fastest(subject, receiver)),
            (subject.path(receiver, "placement"), [0] * count),
            (("cluster", "slots"), count),
            *self._spread(subject, rows),
        ]
        caution = "Each receiver is taken to be as fast as now, which takes cores."
        return Change("receivers", name, tuple(keys), why, (caution,))

    def _spread(self, subject: Subject, rows: Sequence[float]) -> Iterator[tuple[KeyPath, Any]]:
        """Yield the share of each receiver, on every edge."""
        total = sum(rows) or 1.0
        weights = [rates.rounded(max(one / total, 1e-9), 5) for one in rows]
        for index in range(len(subject.scenario.edges)):
            yield ("edges", index, "partitioner"), "hash"
            yield ("edges", index, "channel_weights"), weights

    def _rate(
        self, subject: Subject, receiver: str, factor: float
    ) -> Iterator[tuple[KeyPath, Any]]:
        """Yield the rate with batches of other sizes, if progress says what one costs."""
        rate = subject.stated(receiver, "service_rate")
        if self.batch is None or isinstance(rate, list):
            return
        cost, rows = self.batch
        before, after = cost.per_row_ms(rows), cost.per_row_ms(factor * rows)
        if after > 0:
            path = subject.path(receiver, "service_rate")
            yield path, rates.rounded(rate * before / after)


def _fastest(subject: Subject, receiver: str) -> float:
    """Return the rate of the receiver that has the most to do."""
    stated = subject.stated(receiver, "service_rate")
    known = [rate for rate in stated if rate < _LIMITLESS] if isinstance(stated, list) else [stated]
    return float(max(known, default=_LIMITLESS))


# --- Advice on a link: changes that its ledger suggests, tried on the scenario made from it.


def advise_link(
    path: str | Path,
    progress: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    goal: Goal | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Advice:
    """Propose changes of a link, each run on the scenario that its ledger makes.

    - ``overrides``: changes of that scenario first, ``KEY=VALUE`` each.
    - ``goal``: what to improve; by default what the link lacks.
    - ``out``: folder of the results; by default ``out/<name of the link>-advice``.
    - ``quiet``: show no progress.

    Raises ScenarioError if there is no link, too little went through it, or the folder is refused.
    Nothing was written.
    """
    draft = fit_link(path, progress)
    rules = LinkRules(link_load(path), _batch(progress))
    return advise(
        draft.mapping,
        overrides=overrides,
        goal=goal,
        out=out,
        overwrite=overwrite,
        quiet=quiet,
        rules=(rules.changes,),
    )


def _batch(progress: str | Path | None) -> tuple[Cost, float] | None:
    """Return what a batch costs, and its rows on average; None if nothing says it."""
    if progress is None:
        return None
    batches, _, source = read_progress(progress)
    return cost_of(Draft({}, source), batches, "stages.x"), fmean(one.rows for one in batches)
