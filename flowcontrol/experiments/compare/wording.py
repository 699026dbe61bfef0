"""The texts of a comparison: cells, a sentence per system, and which receivers starve and why."""

from collections.abc import Callable, Sequence
from typing import Final

from flowcontrol.analysis.producer_rates import TOLERANCE, Reaction
from flowcontrol.analysis.wording import join_words, seconds
from flowcontrol.experiments.compare.run import Compared, Outcome, Starved
from flowcontrol.report.markup import bytes_text, number, percent

NOTHING: Final = "-"
"""Cell of a missing figure."""

_EVEN, _WIDE = 0.05, 0.25
"""Swing up to which a rate is even, and from which it swings widely."""

_MOST_SHARES: Final = 3
"""Shares that are listed; of more only the extremes are named."""

_MISSED: Final = {
    "above": "did not follow",
    "below": "stayed below the limit after",
    "swings": "went up and down after",
}

_LEAST_SHARE: Final = 0.9
"""Share of the limit from which on a system brings through what the job can carry."""


def reaction_cell(reaction: Reaction) -> str:
    """Return how long a system took after a slowdown (or a release) at most, for a table.

    ``2 s``; ``above``, ``below`` or ``swings``: where the rate was instead of being at the new
    limit; a dash if there was no such change.
    """
    if not reaction.count:
        return NOTHING
    return reaction.how or f"{seconds(reaction.longest_s or 0.0)} s"


def system_sentence(outcome: Outcome) -> str:
    """Return what a system did, in a sentence or two without its name."""
    figures = outcome.figures
    if figures is None:
        return f"{'Not run' if outcome.state == 'refused' else 'Failed'}: {outcome.reason}."
    parts = [_through(figures), *_ahead(figures), *_swing(figures), *_changes(figures)]
    text = f"{_listed(parts)}."
    if outcome.reason:
        text += f" It was {outcome.reason}."
    if figures.lag_records is not None:
        left = number(figures.lag_end_records or 0)
        text += f" Its sources fell {_behind(figures)} behind their logs, {left} at the end."
    size = bytes_text(figures.peak_bytes)
    text += f" At most {number(figures.peak_records)} records ({size}) were in flight"
    if figures.heap_exhausted_s is not None:
        return f"{text}, until a heap was full at {seconds(figures.heap_exhausted_s)} s."
    if figures.is_bounded is None:
        return f"{text}."
    return f"{text}; memory was {'' if figures.is_bounded else 'not '}bounded."


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _through(figures: Compared) -> str:
    if figures.of_limit is None:
        return f"Delivered {number(figures.consumed)} records"
    return f"Delivered {percent(figures.of_limit)} of what the job can carry"


def _ahead(figures: Compared) -> list[str]:
    if figures.ahead is None or figures.ahead <= TOLERANCE:
        return []
    return [f"let its producers run ahead of the limit (by {percent(figures.ahead)})"]


def _swing(figures: Compared) -> list[str]:
    if figures.swing is None:
        return []
    size = percent(figures.swing)
    if figures.swing <= _EVEN:
        return [f"kept its producers even (swing {size})"]
    how = "let its producers swing" + (" widely" if figures.swing >= _WIDE else "")
    return [f"{how} ({size})"]


def _changes(figures: Compared) -> list[str]:
    texts = []
    for reaction, did, noun in (
        (figures.slowdown, "followed", "slowdown"),
        (figures.release, "was up again after", "release"),
    ):
        if reaction.how:
            texts.append(f"{_MISSED[reaction.how]} {_which(figures, reaction.how, noun)}")
        elif reaction.count:
            each = f"the {noun}" if reaction.count == 1 else f"each {noun}"
            longest = reaction.longest_s
            texts.append(f"{did} {each} {f'within {seconds(longest)} s' if longest else 'at once'}")
    return texts


def _which(figures: Compared, how: str, noun: str) -> str:
    """Name the changes that a system missed, and say where the first slowdown piled up."""
    missed = [
        (index, change)
        for index, change in enumerate(figures.changes)
        if change.is_slowdown == (noun == "slowdown") and change.missed == how
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
    """Return the conclusion: the best systems by figure, and those that did not run."""
    ran = [(o.system, o.figures) for o in outcomes if o.figures is not None]
    texts = []
    if len(ran) > 1:
        good = [(name, f) for name, f in ran if _keeps_up(f)]
        if good:
            texts.append(f"{len(good)} of {len(ran)} keep to the limit; of these")
            best = _best(good, "steadiest", lambda f: f.swing, lambda f: percent(f.swing or 0.0))
            best += _best(
                good,
                "quickest to follow",
                lambda f: f.slowdown.longest_s,
                lambda f: reaction_cell(f.slowdown),
            )
            best += _best(
                good,
                "least in flight",
                lambda f: f.peak_records,
                lambda f: f"{number(f.peak_records)} records",
            )
            best += _best(good, "least behind the log", lambda f: f.lag_records, _behind)
            texts[-1] += f" {', '.join(best)}"
    for how, words in (("above", "Ran ahead"), ("swings", "Went up and down after a slowdown")):
        names = [name for name, f in ran if _missed(f) == how]
        texts += [f"{words}: {join_words(names)}"] if names else []
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


def _behind(figures: Compared) -> str:
    """Return how far a system's sources were behind their logs."""
    return f"{number(figures.lag_records or 0)} records, {seconds(figures.lag_s or 0.0)} s"


def _best(
    ran: Sequence[tuple[str, Compared]],
    what: str,
    key: Callable[[Compared], float | None],
    show: Callable[[Compared], str],
) -> list[str]:
    """Return the systems with the smallest key."""
    valued = [(found, name, f) for name, f in ran if (found := key(f)) is not None]
    if not valued:
        return []
    least, _, figures = min(valued, key=lambda one: one[0])
    names = [name for found, name, _ in valued if found == least]
    return [f"{what} {join_words(names)} ({show(figures)})"]


def _keeps_up(figures: Compared) -> bool:
    """Whether a system reaches the limit of the job and its producers keep to it."""
    is_through = figures.of_limit is None or figures.of_limit >= _LEAST_SHARE
    return is_through and not _missed(figures)


def _missed(figures: Compared) -> str:
    """Return how the producers missed the limit: after a slowdown, or in a phase as a whole."""
    is_ahead = figures.ahead is not None and figures.ahead > TOLERANCE
    return figures.slowdown.how or ("above" if is_ahead else "")


def starving_sentences(outcomes: Sequence[Outcome]) -> list[str]:
    """Return which receivers starve under which systems, and why; empty if none does.

    Returns a paragraph per cause.
    """
    causes: dict[tuple[str, str, str, str], dict[str, list[Starved]]] = {}
    for outcome in outcomes:
        for one in outcome.starved:
            cause = (one.cause, one.feeder, one.other, one.shared)
            causes.setdefault(cause, {}).setdefault(outcome.system, []).append(one)
    return [
        _producer_text(found) if cause[0] == "producer" else _system_text(found, outcomes)
        for cause, found in causes.items()
    ]


def _who(found: dict[str, list[Starved]]) -> tuple[str, str, Starved]:
    """Return the names of those that starve, the systems with shares, and one of them."""
    ones = [one for listed in found.values() for one in listed]
    names = list(dict.fromkeys(one.name for one in ones))
    by_share: dict[str, list[str]] = {}
    for system, own in found.items():
        by_share.setdefault(percent(min(one.share for one in own)), []).append(system)
    shares = [f"{share} under {', '.join(systems)}" for share, systems in by_share.items()]
    if len(shares) > _MOST_SHARES:
        ends = [f(found, key=lambda name: min(o.share for o in found[name])) for f in (min, max)]
        low, high = (f"{percent(min(o.share for o in found[name]))} under {name}" for name in ends)
        shares = [f"from {low} to {high}, {len(found)} systems in all"]
    whose = "it" if len(names) == 1 else "each of them"
    text = f"{join_words(names)} starved: of what {whose} could take up by itself, " + "; ".join(
        [f"it got {shares[0]}", *shares[1:]]
    )
    return text, whose, ones[0]


def _producer_text(found: dict[str, list[Starved]]) -> str:
    text, whose, one = _who(found)
    return (
        f"{text}. {one.feeder} feeds {whose} as well as {one.other}, and waits for {one.other} "
        "with the next record in its hand: what others could take meanwhile is not made. Credits "
        "keep channels apart on the network, not in the one task that feeds them; at the limit of "
        f"this job {whose} gets {percent(one.limit_share)}, whatever moves the records."
    )


def _system_text(found: dict[str, list[Starved]], outcomes: Sequence[Outcome]) -> str:
    text, whose, one = _who(found)
    names = {one.name for listed in found.values() for one in listed}
    free = [
        o.system
        for o in outcomes
        if o.state == "ran" and names.isdisjoint(starved.name for starved in o.starved)
    ]
    text += f". The job can carry {percent(one.limit_share)} of it, but "
    if one.cause == "road":
        text += (
            f"the records came through {one.shared} behind those of {one.other}, which was slow."
        )
    else:
        text += f"all sources are held back because of {one.other}, whomever they feed."
    return text + (f" Under {join_words(free)} {whose} did not starve." if free else "")
