"""Failures: downtime, reprocessed records, refused savepoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flowcontrol.analysis.frames import end_of
from flowcontrol.analysis.run_view import downtime_s
from flowcontrol.analysis.wording import seconds
from flowcontrol.layout.fault_tolerance import restart_rates, surviving_sources
from flowcontrol.report.markup import html_table, number
from flowcontrol.results.run import Run
from flowcontrol.topics.topic import Topic, sentences_of

if TYPE_CHECKING:
    import pyarrow as pa

    from flowcontrol.scenario import Savepoint
    from flowcontrol.scenario.fault_tolerance import Failure


Rates = tuple[Fraction, Fraction, bool]
"""Records/s that come and that the job can do; whether what comes waits in a log."""

_ROUNDING_S: Final = 1e-6

MOST_SENTENCES: Final = 5
"""Failures, and savepoints, with a sentence of their own."""


def restart_summary(
    table: pa.Table,
    end_s: float,
    rates: Rates | None = None,
    planned: Sequence[tuple[float, str]] = (),
    surviving: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Return what ``summary.json`` says of failures.

    - ``table``: ``restarts`` of a run.
    - ``end_s`` (s): end of the run.
    - ``rates``: those of :func:`flowcontrol.layout.fault_tolerance.restart_rates`, the closed form;
      by default there is none.
    - ``surviving``: by what fails the share of the sources that emits until it is cancelled
      (:func:`flowcontrol.layout.fault_tolerance.surviving_sources`); by default none does.

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
        "downtime_s": downtime_s(found, end_s),
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


def _rest(found: Sequence[Mapping[str, Any]], end_s: float) -> list[str]:
    """Return a sentence on the failures that have none."""
    left = found[MOST_SENTENCES:]
    if not left:
        return []
    noun = "failure" if len(left) == 1 else "failures"
    again = sum(one["records_reprocessed"] or 0 for one in found)
    last, down = seconds(left[-1]["failed_s"]), seconds(downtime_s(found, end_s))
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


_JOB_MANAGER: Final = "the JobManager"


class _Restart(NamedTuple):
    """Rounds in which the coordinator of checkpoints has no job that runs as a whole.

    It notes a failure behind the requests of a round, and that all run again likewise: what is
    asked for in the first of these rounds begins, in the last one it is refused.
    """

    first: int
    last: int | None


def refused_sentences(
    restarts: pa.Table,
    checkpoints: pa.Table,
    savepoints: Sequence[Savepoint],
    failures: Sequence[Failure],
    round_us: int,
) -> list[str]:
    """Return a sentence for each savepoint that was refused since the job was restarting.

    Source: ``CheckpointCoordinator.startTriggeringCheckpoint``, which needs all tasks to run
    (NOT_ALL_REQUIRED_TASKS_RUNNING). A savepoint that waits for another checkpoint, as it does
    with unaligned ones, is refused when a task fails (CHECKPOINT_COORDINATOR_SUSPEND).

    ``round_us`` (microseconds): length of a round.

    Of many only those of the first, and one on the rest.
    """
    found = _restarts(restarts.to_pylist(), failures, round_us)
    began = sorted(
        round(row["triggered_s"] * 1e6 / round_us)
        for row in checkpoints.select(["kind", "triggered_s"]).to_pylist()
        if row["kind"] == "savepoint"
    )
    sentences = []
    for one in sorted(savepoints, key=lambda one: one.at_us):
        asked = -(-one.at_us // round_us)
        ended = next((own for own in found if own.last is None or asked <= own.last), None)
        last = asked if ended is None else max(asked, ended.first)
        if ended is not None and (ended.first < asked or not _takes(began, asked, last)):
            sentences.append(_refusal(one, asked, ended, round_us))
    left = len(sentences) - MOST_SENTENCES
    if left > 0:
        noun = "savepoint was" if left == 1 else "savepoints were"
        sentences[MOST_SENTENCES:] = [f"{left:,} more {noun} refused likewise."]
    return sentences


def _restarts(
    rows: Sequence[Mapping[str, Any]], failures: Sequence[Failure], round_us: int
) -> list[_Restart]:
    """Return the times without a whole job, in order and apart."""
    found: list[_Restart] = []
    spans = [(_first(row, failures, round_us), row["running_s"]) for row in rows if _is_known(row)]
    for place, (first, running_s) in enumerate(spans):
        # A failure that another one made up for ends with that one's restart.
        ends = [running_s, *(end_s for _, end_s in spans[place + 1 :])]
        end_s = next((one for one in ends if one is not None), None)
        last = None if end_s is None else round(end_s * 1e6 / round_us)
        before = found[-1] if found else None
        if before is None or (before.last is not None and first > before.last):
            found.append(_Restart(first, last))
        elif before.last is not None and (last is None or last > before.last):
            found[-1] = _Restart(before.first, last)
    return found


def _is_known(row: Mapping[str, Any]) -> bool:
    return row["detected_s"] is not None or _JOB_MANAGER in row["cause"].split(" and ")


def _first(row: Mapping[str, Any], failures: Sequence[Failure], round_us: int) -> int:
    """Return the round in which the coordinator learns of a failure, or dies with it."""
    found: float | None = row["detected_s"]
    if _JOB_MANAGER in row["cause"].split(" and "):
        for one in failures:
            is_before = found is None or float(one.at_s) <= found
            if one.job_manager and is_before and float(one.at_s) >= row["failed_s"]:
                return -(-one.at_us // round_us)
    assert found is not None  # see _is_known; every death of a JobManager was planned
    return round(found * 1e6 / round_us)


def _takes(began: list[int], asked: int, last: int) -> bool:
    """Take the first savepoint that began from one round to another; tell whether there is one."""
    found = next((one for one in began if asked <= one <= last), None)
    if found is not None:
        began.remove(found)
    return found is not None


def _refusal(one: Savepoint, asked: int, own: _Restart, round_us: int) -> str:
    first, asked_s = _moment(own.first * round_us / 1e6), _moment(float(one.at_s))
    came = " and the job did not stop with it" if one.stop else ""
    text = f"The savepoint at {asked_s} s was refused{came}"
    if asked <= own.first:
        text += ", since it still waited for another checkpoint when"
        text += f" the job began to restart at {first} s"
    elif own.last is None:
        return f"{text}, since the job was down from {first} s on."
    else:
        text += f", since the job was restarting from {first}"
        text += f" to {_moment(own.last * round_us / 1e6)} s"
    return f"{text}: as with Flink, ask again once it runs."


def _moment(time_s: float) -> str:
    """Return a time with all decimals: what is refused at one may begin a round later."""
    return f"{round(time_s, 6):,.12g}"


_HEADS = (
    "", "What failed", "at", "Noticed at", "Restore began", "Ran again", "From checkpoint",
    "Subtasks", "Processed again", "Caught up at", "after", "by rates alone",
)  # fmt: skip
MOST_ROWS = 100
"""Failures in the table of the page; of more the first ones."""


def restart_section(summary: Mapping[str, Any]) -> str:
    """Return the table of the page; empty if nothing failed."""
    found = summary.get("restarts", {}).get("failures", ())
    if not found:
        return ""
    rows = [list(map(escape, _cells(one))) for one in found[:MOST_ROWS]]
    note = f" The first {MOST_ROWS} of {len(found):,}." if len(found) > MOST_ROWS else ""
    down = seconds(summary["restarts"]["downtime_s"])
    return (
        '<section id="restarts"><h2>Failures</h2>'
        f'<div class="scroll">{html_table(_HEADS, rows)}</div>'
        f'<p class="how">The job, or a part of it, was down for {down} s in all. Noticed: until '
        "then the others went on as if nothing had happened. Processed again: records that the "
        "sources emitted once more. Caught up: no more records waited at the sources and in the "
        "channels than at the failure. By rates alone: what is processed again and what came "
        f"meanwhile, over what the job can do more than comes.{note}</p></section>\n"
    )


def _cells(one: Mapping[str, Any]) -> list[str]:
    found = [str(one["number"]), one["cause"], _time(one["failed_s"])]
    found += [_time(one[key]) for key in ("detected_s", "restarted_s", "running_s")]
    checkpoint = one["checkpoint_id"]
    restored = "none" if checkpoint is None else str(checkpoint)
    found.append("" if one["running_s"] is None else restored)
    again = one["records_reprocessed"]
    found += [number(one["tasks"]), "" if again is None else number(again)]
    return found + [_time(one[key]) for key in ("caught_up_s", "catch_up_s", "expected_catch_up_s")]


def _time(value: float | None) -> str:
    return "" if value is None else f"{seconds(value)} s"


def _add(run: Run, summary: dict[str, Any]) -> None:
    if "restarts" not in run.tables:
        return
    tables, job, own = run.tables, run.job, run.job.scenario
    planned = [(float(one.at_s), one.victim) for one in own.failures]
    lives = surviving_sources(job)
    found = restart_summary(tables["restarts"], end_of(tables), restart_rates(job), planned, lives)
    if "checkpoints" in tables:
        both = tables["restarts"], tables["checkpoints"]
        found["sentences"] += refused_sentences(*both, own.savepoints, own.failures, job.round_us)
    summary["restarts"] = found


RESTARTS: Final = Topic(
    add=_add, sentences=sentences_of("restarts"), section=lambda run: restart_section(run.summary)
)
