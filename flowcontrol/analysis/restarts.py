"""What failures cost a run: time that it was down, records processed again, time to catch up."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.wording import seconds

if TYPE_CHECKING:
    import pyarrow as pa

Rates = tuple[Fraction, Fraction, bool]
"""Records/s that come and that the job can do; whether what comes waits in a log."""

_ROUNDING_S: Final = 1e-6

MOST_SENTENCES: Final = 5
"""Failures with a sentence of their own."""


def restart_summary(
    table: "pa.Table",
    end_s: float,
    rates: Rates | None = None,
    planned: Sequence[tuple[float, str]] = (),
    surviving: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Return what ``summary.json`` says of failures.

    - ``table``: ``restarts`` of a run.
    - ``end_s`` (s): end of the run.
    - ``rates``: those of the closed form (:func:`flowcontrol.layout.failover.restart_rates`); by
      default there is none.
    - ``surviving``: by what fails the share of the sources that emits until it is cancelled
      (:func:`flowcontrol.layout.failover.surviving_sources`); by default none does.

    Returns ``count``; ``downtime_s``, from each failure until all tasks ran again;
    ``records_reprocessed``; ``longest_catch_up_s`` or null; ``failures``, of each its row of the
    table, ``downtime_s``, ``catch_up_s`` (from ``running_s`` on) and ``expected_catch_up_s``, both
    null if there is none; and ``sentences``, of many failures only those of the first and one on
    the rest, and of those that hit nothing one each.
    """
    found = [_with_figures(row, end_s, rates, surviving or {}) for row in table.to_pylist()]
    caught = [one["catch_up_s"] for one in found if one["catch_up_s"] is not None]
    return {
        "count": len(found),
        "downtime_s": _downtime_s(found, end_s),
        "records_reprocessed": sum(one["records_reprocessed"] or 0 for one in found),
        "longest_catch_up_s": max(caught, default=None),
        "failures": found,
        "sentences": [
            *(_sentence(one) for one in found[:MOST_SENTENCES]),
            *_rest(found, end_s),
            *_missed(found, planned)[:MOST_SENTENCES],
        ],
    }


def expected_catch_up_s(reprocessed: int, downtime_s: float, rates: Rates) -> float | None:
    """Return how long the job takes to make up for a failure, s; None: never.

    What is processed again and what came while the sources stood still, over what the job can do
    more than comes. What they emit between the failure and their end is processed again, and does
    not count a second time as what came. A source without a log emits at its own rate, whatever it
    has lost.
    """
    arrival, capacity, has_log = rates
    if not has_log:
        return float(reprocessed / arrival) if 0 < arrival <= capacity else None
    backlog, spare = reprocessed + float(arrival) * downtime_s, capacity - arrival
    return backlog / float(spare) if spare > 0 else None


def _with_figures(
    row: Mapping[str, Any], end_s: float, rates: Rates | None, surviving: Mapping[str, float]
) -> dict[str, Any]:
    running, caught = row["running_s"], row["caught_up_s"]
    down_s = (end_s if running is None else running) - row["failed_s"]
    expected = None
    if rates is not None and running is not None:
        share = surviving.get(row["cause"].split(" and ")[0], 0.0)
        stood_s = down_s - share * (row["detected_s"] - row["failed_s"])
        expected = expected_catch_up_s(row["records_reprocessed"], stood_s, rates)
    return {
        **row,
        "downtime_s": round(down_s, 6),
        "catch_up_s": None if caught is None else round(caught - running, 6),
        "expected_catch_up_s": None if expected is None else round(expected, 6),
    }


def _downtime_s(found: Sequence[Mapping[str, Any]], end_s: float) -> float:
    """Return the time in which something was down; failures may overlap."""
    total, until = 0.0, 0.0
    for one in sorted(found, key=lambda one: float(one["failed_s"])):
        ended = end_s if one["running_s"] is None else one["running_s"]
        later = [two["failed_s"] for two in found if two["number"] > one["number"]]
        if one["running_s"] is None and later:
            ended = min(later)
        total += max(0.0, ended - max(until, one["failed_s"]))
        until = max(until, ended)
    return round(total, 6)


def _rest(found: Sequence[Mapping[str, Any]], end_s: float) -> list[str]:
    """Return a sentence on the failures that have none."""
    left = found[MOST_SENTENCES:]
    if not left:
        return []
    noun = "failure" if len(left) == 1 else "failures"
    again = sum(one["records_reprocessed"] or 0 for one in found)
    last, down = seconds(left[-1]["failed_s"]), seconds(_downtime_s(found, end_s))
    return [
        f"{len(left):,} more {noun} followed, the last at {last} s; in all "
        f"the job was down for {down} of {seconds(end_s)} s and "
        f"processed {again:,} records again."
    ]


def _missed(found: Sequence[Mapping[str, Any]], planned: Sequence[tuple[float, str]]) -> list[str]:
    """Return a sentence for each failure that was planned and is in no row."""
    left = [[one, one["cause"].split(" and ")] for one in found]
    sentences = []
    for at_s, victim in planned:
        for one, victims in left:
            running = one["running_s"]
            is_then = one["failed_s"] <= at_s + _ROUNDING_S and (running is None or at_s <= running)
            if is_then and victim in victims:
                victims.remove(victim)
                break
        else:
            name = f"{victim[0].upper()}{victim[1:]}"
            sentences.append(
                f"{name} was to fail at {at_s:g} s, where nothing of the job ran: nothing happened."
            )
    return sentences


def _sentence(one: Mapping[str, Any]) -> str:
    names = Counter(one["cause"].split(" and "))
    cause = " and ".join(f"{name} ({n} times)" if n > 1 else name for name, n in names.items())
    text = f"{cause[0].upper()}{cause[1:]} failed at {seconds(one['failed_s'])} s"
    if one["running_s"] is None:
        return f"{text}; the job did not run again before the next failure or the end."
    start = "the beginning"
    if one["checkpoint_id"] is not None:
        start = f"checkpoint {one['checkpoint_id']}"
    text += f"; {seconds(one['downtime_s'])} s later {one['tasks']} subtasks ran again from {start}"
    text += f", and {one['records_reprocessed']:,} records were processed again"
    if one["catch_up_s"] is None:
        return f"{text}. What waited was not worked off."
    text += f". What waited was worked off after another {seconds(one['catch_up_s'])} s"
    if one["expected_catch_up_s"] is not None:
        text += f", where rates alone give {seconds(one['expected_catch_up_s'])} s"
    return f"{text}."
