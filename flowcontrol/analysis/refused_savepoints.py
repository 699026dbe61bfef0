"""Savepoints that came to nothing since the job was restarting, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

    from flowcontrol.scenario import Savepoint
    from flowcontrol.scenario.fault_tolerance import Failure

MOST_SENTENCES: Final = 5
"""Savepoints with a sentence of their own."""

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
            sentences.append(_sentence(one, asked, ended, round_us))
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


def _sentence(one: Savepoint, asked: int, own: _Restart, round_us: int) -> str:
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
