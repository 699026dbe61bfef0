"""What a comparison says: cells of its tables, a sentence per system, and who starves and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from flowcontrol.comparing.figures import Figures
from flowcontrol.comparing.outcome import Outcome
from flowcontrol.comparing.starving import Starved
from flowcontrol.diagnosis.wording import join_words, seconds
from flowcontrol.report.numbers import bytes_text, number, percent

__all__ = [
    "NOTHING",
    "bounded_cell",
    "change_cell",
    "headline",
    "starving_sentences",
    "system_sentence",
]

NOTHING: Final = "-"
"""Stands for a figure that there is not."""

_EVEN, _WIDE = 0.05, 0.25
"""Swing up to which a rate is even, and from which it swings widely."""

_LEAST_SHARE: Final = 0.9
"""Share of the limit from which on a system brings through what the job can carry."""


def change_cell(figures: Figures, *, slowdown: bool) -> str:
    """Return how long a system took after a slowdown (or a release) at most, for a table.

    ``2 s``, ``never``, ``below`` (it never came up to the limit); a dash if there was none.
    """
    missed, longest = figures.after(slowdown=slowdown)
    if not figures.count(slowdown=slowdown):
        return NOTHING
    if missed:
        return "below" if figures.is_below(slowdown=slowdown) else "never"
    return f"{seconds(longest or 0.0)} s"


def bounded_cell(figures: Figures) -> str:
    """Return whether memory was bounded, for a table."""
    return NOTHING if figures.is_bounded is None else "yes" if figures.is_bounded else "no"


def system_sentence(outcome: Outcome) -> str:
    """Return what a system did, in a sentence or two without its name."""
    figures = outcome.figures
    if figures is None:
        return f"{'Not run' if outcome.state == 'refused' else 'Failed'}: {outcome.reason}."
    parts = [_through(figures), *_swing(figures), *_changes(figures)]
    text = f"{_listed(parts)}."
    size = bytes_text(figures.peak_bytes)
    text += f" At most {number(figures.peak_records)} records ({size}) were in flight"
    if figures.heap_exhausted_s is not None:
        return f"{text}, until a heap was full at {seconds(figures.heap_exhausted_s)} s."
    if figures.is_bounded is None:
        return f"{text}."
    return f"{text}; memory was {'' if figures.is_bounded else 'not '}bounded."


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _through(figures: Figures) -> str:
    if figures.of_limit is None:
        return f"Brought {number(figures.consumed)} records through"
    return f"Brought {percent(figures.of_limit)} of what the job can carry through"


def _swing(figures: Figures) -> list[str]:
    if figures.swing is None:
        return []
    size = percent(figures.swing)
    if figures.swing <= _EVEN:
        return [f"kept its producers even (swing {size})"]
    how = "let its producers swing" + (" widely" if figures.swing >= _WIDE else "")
    return [f"{how} ({size})"]


def _changes(figures: Figures) -> list[str]:
    texts = []
    for slowdown, did, did_not, noun in (
        (True, "followed", "did not follow", "slowdown"),
        (False, "was up again after", "was not up again after", "release"),
    ):
        count = figures.count(slowdown=slowdown)
        missed, longest = figures.after(slowdown=slowdown)
        if not count:
            continue
        if figures.is_below(slowdown=slowdown):
            texts.append(f"stayed below the limit after {_which(figures, noun, slowdown=slowdown)}")
        elif missed:
            texts.append(f"{did_not} {_which(figures, noun, slowdown=slowdown)}")
        else:
            each = f"the {noun}" if count == 1 else f"each {noun}"
            texts.append(f"{did} {each} {f'within {seconds(longest)} s' if longest else 'at once'}")
    return texts


def _which(figures: Figures, noun: str, *, slowdown: bool) -> str:
    """Name the changes that a system missed, and say where the first slowdown piled up."""
    missed = [
        (index, change)
        for index, change in enumerate(figures.changes)
        if change.is_slowdown == slowdown and change.after_s is None
    ]
    times = join_words([f"{seconds(change.at_s)} s" for _, change in missed])
    text = f"the {noun}{'s' if len(missed) > 1 else ''} at {times}"
    piled = figures.piled_up.get(missed[0][0])
    if piled is None:
        return text
    end = "sender" if piled.at_sender else "receiver"
    size = bytes_text(piled.nbytes)
    return (
        f"{text} ({number(piled.records)} records, {size}, piled up at the {end} of {piled.edge})"
    )


def headline(outcomes: Sequence[Outcome]) -> str:
    """Return what the comparison comes to: who is best at what, and who did not run."""
    ran = [(o.system, o.figures) for o in outcomes if o.figures is not None]
    texts = []
    if len(ran) > 1:
        good = [(name, f) for name, f in ran if _keeps_up(f)]
        if good:
            texts.append(f"{len(good)} of {len(ran)} keep to the limit; of these")
            best = _best(good, "steadiest", lambda f: f.swing, lambda f: percent(f.swing or 0.0))
            best += _best(good, "quickest to follow", _follow, _followed)
            best += _best(good, "least in flight", lambda f: f.peak_records, _peak)
            texts[-1] += f" {', '.join(best)}"
    never = [n for n, f in ran if f.after(slowdown=True)[0] and not f.is_below(slowdown=True)]
    if never:
        texts.append(f"Did not follow a slowdown: {join_words(never)}")
    slow = [n for n, f in ran if f.of_limit is not None and f.of_limit < _LEAST_SHARE]
    if slow:
        texts.append(f"Less than {percent(_LEAST_SHARE)} of the limit: {join_words(slow)}")
    texts += [
        f"{verb}: {join_words([o.system for o in outcomes if o.state == state])}"
        for verb, state in (("Not run", "refused"), ("Failed", "failed"))
        if any(o.state == state for o in outcomes)
    ]
    if len(ran) == 1:
        texts.insert(0, f"Only {ran[0][0]} was run")
    return ". ".join(texts) + "."


def _best(
    ran: Sequence[tuple[str, Figures]],
    what: str,
    key: Callable[[Figures], float | None],
    show: Callable[[Figures], str],
) -> list[str]:
    """Return who has the smallest key, with all that share the place."""
    valued = [(found, name, f) for name, f in ran if (found := key(f)) is not None]
    if not valued:
        return []
    least, _, figures = min(valued, key=lambda one: one[0])
    names = [name for found, name, _ in valued if found == least]
    return [f"{what} {join_words(names)} ({show(figures)})"]


def _keeps_up(figures: Figures) -> bool:
    """Whether a system brings through what the job can carry, and follows each slowdown."""
    is_through = figures.of_limit is None or figures.of_limit >= _LEAST_SHARE
    return is_through and not figures.after(slowdown=True)[0]


def _followed(figures: Figures) -> str:
    return change_cell(figures, slowdown=True)


def _peak(figures: Figures) -> str:
    return f"{number(figures.peak_records)} records"


def _follow(figures: Figures) -> float | None:
    return figures.after(slowdown=True)[1]


def starving_sentences(outcomes: Sequence[Outcome]) -> list[str]:
    """Return who starves under which systems, and why; nothing if nobody does.

    Parameters
    ----------
    outcomes : sequence of Outcome
        Of all systems.

    Returns
    -------
    list of str
        A paragraph per cause.
    """
    causes: dict[tuple[bool, str, str, str], dict[str, list[Starved]]] = {}
    for outcome in outcomes:
        for one in outcome.starved:
            cause = (one.by_producer, one.feeder, one.other, one.shared)
            causes.setdefault(cause, {}).setdefault(outcome.system, []).append(one)
    return [
        _producer_text(found) if cause[0] else _shared_text(found, outcomes)
        for cause, found in causes.items()
    ]


def _who(found: dict[str, list[Starved]]) -> tuple[str, str, Starved]:
    """Return the names of those that starve, the systems with shares, and one of them."""
    ones = [one for listed in found.values() for one in listed]
    names = join_words(list(dict.fromkeys(one.name for one in ones)))
    shares = [f"{name} {percent(min(o.share for o in own))}" for name, own in found.items()]
    return names, ", ".join(shares), ones[0]


def _producer_text(found: dict[str, list[Starved]]) -> str:
    names, shares, one = _who(found)
    rest = f"as well as {one.other}" if one.other else "as well as others"
    other = one.other or "another receiver"
    return (
        f"{names} starved ({shares} of what it could take up by itself). {one.feeder} feeds it "
        f"{rest}, and waits for {other} with the next record in its hand: what {names} could take "
        "is not made. Credits keep channels apart on the network, not in the one task that feeds "
        f"them; no way of moving records gives it more than {percent(one.limit_share)} here."
    )


def _shared_text(found: dict[str, list[Starved]], outcomes: Sequence[Outcome]) -> str:
    names, shares, one = _who(found)
    free = [o.system for o in outcomes if o.state == "ran" and o.system not in found]
    text = (
        f"{names} starved ({shares} of what it could take up by itself), although the job can "
        f"carry {percent(one.limit_share)} of it. "
    )
    if one.other:
        text += f"Its records came through {one.shared} behind those of {one.other}, which was slow"
    else:
        text += "What may be under way to it at a time is too little for its rate"
    return f"{text}." + (f" It did not starve under {join_words(free)}." if free else "")
