"""Checkpoints of a run in figures and sentences: how many ended how, how long they took, why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.checkpoint_causes import (
    PARTS,
    advice_on,
    find_cause,
    find_late,
    find_windows,
    slowest_subtask,
)
from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.wording import NAMED, seconds
from flowcontrol.analysis.wording import size as _size
from flowcontrol.records import CHECKPOINT_TASKS, CHECKPOINTS
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd


COMPLETED: Final = "completed"
IN_PROGRESS: Final = "in_progress"
FAILED: Final = ("expired", "declined", "aborted")
STATUSES: Final = (COMPLETED, *FAILED, IN_PROGRESS)
"""In the order in which they are shown."""

_SIZES = ("state_bytes", "processed_bytes", "persisted_bytes")


def checkpoint_frame(tables: Tables) -> pd.DataFrame:
    """Return the table ``checkpoints``; one that had not ended has the status ``in_progress``.

    ``tables``: results of a run; a missing table counts as empty.
    """
    table = tables.get("checkpoints")
    found: pd.DataFrame = (
        CHECKPOINTS.arrow_schema().empty_table() if table is None else table
    ).to_pandas()
    return found.assign(status=found["status"].mask(found["ended_s"].isna(), IN_PROGRESS))


def task_frame(tables: Tables) -> pd.DataFrame:
    """Return the subtasks that reported, with parts that do not overlap.

    ``tables``: results of a run; a missing table counts as empty.

    Returns the columns of ``checkpoint_tasks``. Behind a barrier that overtakes, the asynchronous
    part includes the wait for the last barrier, which is the alignment: ``async_ms`` here is
    without it, so that the four parts together are at most ``e2e_ms``.
    """
    table = tables.get("checkpoint_tasks")
    found: pd.DataFrame = (
        CHECKPOINT_TASKS.arrow_schema().empty_table() if table is None else table
    ).to_pandas()
    found = found[found["start_delay_ms"].notna()].reset_index(drop=True)
    twice = (found[list(PARTS)].sum(axis=1) - found["e2e_ms"]).clip(lower=0.0)
    return found.assign(async_ms=(found["async_ms"] - twice).clip(lower=0.0))


def checkpoint_summary(tables: Tables, scenario: Scenario, round_ms: float = 0.0) -> dict[str, Any]:
    """Return what ``summary.json`` says of checkpoints.

    Quantiles are those of Flink's page, at place p (n + 1) of the sorted values, so that those of
    few checkpoints are their extremes.

    - ``tables``: results of a run, with ``checkpoints`` and ``checkpoint_tasks``.
    - ``round_ms`` (ms): length of a round. What takes no longer than the messages of a checkpoint
      is not slow.

    Returns ``counts`` by status; ``savepoints``, how many of them are savepoints; of the completed
    ones ``e2e`` (``min_ms``, ``mean_ms``, ``p50_ms``, ``p99_ms``, ``max_ms``; null if there is
    none), ``state_bytes``, ``processed_bytes`` and ``persisted_bytes`` (means, and with ``max_``
    before them the largest) and ``slowest``, the subtask that most often acknowledged last, with
    the part of its time that was the longest, or null; ``cause``, what makes the slow ones slow, or
    null; ``late``, who had not acknowledged those that expired, or null; ``windows``, those that
    make them large because their watermark lags, or null; and ``sentences``.
    """
    checkpoints, tasks = checkpoint_frame(tables), task_frame(tables)
    done = checkpoints[checkpoints["status"] == COMPLETED]
    own = tasks[tasks["checkpoint_id"].isin(done["checkpoint_id"])]
    found: dict[str, Any] = {
        "counts": {status: int((checkpoints["status"] == status).sum()) for status in STATUSES},
        "savepoints": int((checkpoints["kind"] == "savepoint").sum()),
        "e2e": _durations(done["e2e_ms"]),
        **{name: float(done[name].mean()) if len(done) else 0.0 for name in _SIZES},
        **{f"max_{name}": int(done[name].max()) if len(done) else 0 for name in _SIZES},
        "slowest": slowest_subtask(own),
    }
    found["cause"] = find_cause(done, own, tables, scenario, round_ms)
    found["late"] = find_late(checkpoints, tasks, tables, scenario)
    found["windows"] = find_windows(done, tables, scenario)
    found["sentences"] = checkpoint_sentences(found, scenario)
    return found


def _durations(values: pd.Series[float]) -> dict[str, float] | None:
    import numpy as np

    if values.empty:
        return None
    p50, p99 = np.quantile(values, [0.5, 0.99], method="weibull")
    figures = {"min": values.min(), "mean": values.mean(), "p50": p50, "p99": p99}
    return {f"{name}_ms": float(value) for name, value in (figures | {"max": values.max()}).items()}


def checkpoint_metrics(tables: Tables) -> tuple[float | None, int | None, float | None]:
    """Return three figures by which runs are compared.

    Returns the median end to end of the completed checkpoints, ms (None: there is none), how many
    expired, were declined or aborted (None: the job takes no checkpoints), and the mean of the
    bytes in flight that a completed one persisted (None: there is none).
    """
    if "checkpoints" not in tables:
        return None, None, None
    found = checkpoint_frame(tables)
    done = found[found["status"] == COMPLETED]
    e2e, failed = _durations(done["e2e_ms"]), int(found["status"].isin(FAILED).sum())
    return None if e2e is None else e2e["p50_ms"], failed, _mean(done["persisted_bytes"])


def _mean(values: pd.Series[float]) -> float | None:
    return float(values.mean()) if len(values) else None


def checkpoint_sentences(found: Mapping[str, Any], scenario: Scenario) -> list[str]:
    """Return the sentences about the checkpoints of a run.

    ``found``: from :func:`flowcontrol.analysis.checkpoints.checkpoint_summary`, but for its
    sentences.

    The sentences say how they ended and, where the figures show it, what makes them slow, which
    task let them expire, and whose watermark makes them large.
    """
    total = sum(found["counts"].values())
    if not total:
        return ["No checkpoint was triggered."]
    sentences = [_outcome(found, total)]
    if found["cause"]:
        sentences.append(_cause(found["cause"], found["counts"]["completed"], scenario))
    if found["cause"] and "firing" in found["cause"]:
        sentences.append(_firing(found["cause"]["firing"]))
    if found["late"]:
        sentences.append(_late(found["late"], found["counts"]["expired"], scenario))
    if found["windows"]:
        sentences.append(_windows(found["windows"]))
    return sentences


def remedy_sentence(remedies: Sequence[Mapping[str, Any]]) -> str:
    """Return what some changes did, each run on the virtual clock.

    ``remedies``: from :func:`flowcontrol.run.remedies.checkpoint_remedies`, at least one.
    """
    texts = []
    for one in remedies:
        e2e, persisted = one["e2e"], one["persisted_bytes"]
        text = f"with {one['name']} {one['completed']:,} of {one['triggered']:,} completed"
        if e2e:
            text += f" in {_time(e2e['p50_ms'])} (median), {_time(e2e['max_ms'])} at most"
        texts.append(text + (f", {_size(persisted)} persisted on average" if persisted else ""))
    return f"The same run on the virtual clock, {'; '.join(texts)}."


def aside_sentence(put_aside: Mapping[str, Mapping[str, int]]) -> str:
    """Return what tasks have put aside behind barriers; empty if that is nothing.

    ``put_aside``: ``bytes_written`` and ``max_bytes`` by stage
    (:class:`flowcontrol.results.run.Run`).
    """
    texts = [
        f"{stage} put {_size(own['bytes_written'])} aside behind barriers, "
        f"{_size(own['max_bytes'])} at a time"
        for stage, own in put_aside.items()
        if own["bytes_written"] > 0
    ]
    return f"{'; '.join(texts)}." if texts else ""


def _outcome(found: Mapping[str, Any], total: int) -> str:
    counts, e2e = found["counts"], found["e2e"]
    text = f"{counts['completed']:,} of {total:,} checkpoints completed"
    if e2e:
        text += f", in {_time(e2e['p50_ms'])} (median), {_time(e2e['max_ms'])} at most"
        if found["persisted_bytes"]:
            text += (
                f", with {_size(found['persisted_bytes'])} of data in flight persisted on average"
            )
    names = {"in_progress": "still in progress at the end"}
    others = [
        f"{count:,} {names.get(status, status)}"
        for status, count in counts.items()
        if count and status != "completed"
    ]
    return f"{text}; {', '.join(others)}." if others else f"{text}."


def _cause(cause: Mapping[str, Any], completed: int, scenario: Scenario) -> str:
    slow = cause["slow"]
    which = "checkpoints" if slow == completed else f"{slow:,} of {completed:,} checkpoints"
    who = f"subtask {cause['subtask']} of {cause['stage']}"
    spent = f"{_time(cause['part_ms'])} of the {_time(cause['e2e_ms'])} until {who} acknowledged"
    if slow > 1:
        spent += f", on average, the last one in {cause['last']:,} of {slow:,}"
    if "others_ms" in cause:
        spent += f" (the others of {cause['stage']} after {_time(cause['others_ms'])})"
    rest = f"{_second(cause)}."
    if cause["kind"] == "sync":
        return f"The synchronous part makes {which} slow: it blocked its task for {spent}{rest}"
    if cause["kind"] == "upload":
        written = _size(cause["bytes"])
        return f"The upload makes {which} slow: writing {written} took {spent}{rest}"
    if cause["kind"] == "channel":
        return f"One channel makes {which} slow: {_channel(cause, who)}{_hop(cause)}{rest}"
    return f"{_on_way(cause, which, scenario)} {spent}{_hop(cause)}{rest}"


def _firing(window: str) -> str:
    """Return why barriers wait behind a window, and what helps."""
    return (
        f"{window} was firing into full outputs meanwhile: barriers, unaligned ones too, wait "
        f"until all timers of its watermark have fired; {advice_on(window)}."
    )


def _on_way(cause: Mapping[str, Any], which: str, scenario: Scenario) -> str:
    """Return what the barriers waited for."""
    if not cause["overtaken"]:
        text = f"Data in flight ahead of the barriers makes {which} slow"
        return f"{text}: the barriers were on their way for"
    own = scenario.checkpointing
    timeout_ms = 0.0 if own is None else own.aligned_timeout_us / 1000
    if 0 < timeout_ms <= cause["part_ms"]:
        text = f"The aligned-checkpoint-timeout of {_time(timeout_ms)} makes {which} slow"
        return f"{text}, as barriers overtake only after it: they were on their way for"
    text = f"Although they overtake data, barriers make {which} slow"
    return f"{text}: they were on their way for"


def _second(cause: Mapping[str, Any]) -> str:
    """Return the other part that took long."""
    if "second" not in cause:
        return ""
    parts = {
        "sync": "the synchronous part took",
        "upload": "the upload took",
        "in_flight": "the barriers were on their way for",
    }
    return f"; {parts[cause['second']]} another {_time(cause['second_ms'])}"


def _channel(cause: Mapping[str, Any], who: str) -> str:
    sender = f"subtask {cause['sender_subtask']} of {cause['sender']}"
    text = f"{who} waited {_time(cause['alignment_ms'])} for the barrier from {sender}, which "
    if "sent_ms" in cause:
        return (
            f"{text}sent it {_time(cause['sent_ms'])} after the trigger, all others after "
            f"{_time(cause['others_sent_ms'])} at most"
        )
    return (
        f"{text}stood behind {_size(cause['held_bytes'])} in flight, the others behind "
        f"{_size(cause['others_bytes'])} on average"
    )


def _hop(cause: Mapping[str, Any]) -> str:
    """Return where on their way the barriers spent most of the time."""
    if "edge" not in cause:
        return ""
    text = f"; {_time(cause['hop_ms'])} passed on {cause['edge']}"
    if not cause["overtaken"]:
        text += f", which had {_size(cause['in_flight_bytes'])} in flight at the trigger"
    if cause["blocked"] > NAMED:
        text += (
            f", while {cause['edge_sender']} was blocked {100 * cause['blocked']:.0f} % of the run"
        )
    return text


def _late(late: Mapping[str, Any], expired: int, scenario: Scenario) -> str:
    stage, count = late["stage"], late["checkpoints"]
    which = "The one" if expired == 1 else f"All {expired:,}"
    which = which if count == expired else f"{count:,} of the {expired:,}"
    text = f"{which} that expired waited for {stage}, which had not acknowledged"
    records, rate = late["in_flight_records"], late["rate_in"]
    own = scenario.checkpointing
    if not records or rate is None or own is None:
        return f"{text}."
    text += f". At the trigger {records:,.0f} records were in flight on the way to it"
    if rate <= 0:
        return f"{text}, and it took none up."
    text += f", and it took up {rate:,.0f} records/s"
    if any(stage.selectivity != 1 for stage in scenario.stages if stage.name != late["stage"]):
        return f"{text}."
    return (
        f"{text}: {seconds(records / rate)} s, with a timeout of {seconds(own.timeout_us / 1e6)} s."
    )


def _windows(found: Mapping[str, Any]) -> str:
    """Return why checkpoints are large whose windows are open for long."""
    share = min(1.0, found["window_bytes"] / found["state_bytes"])
    now, without = _size(found["window_bytes"]), _size(found["without_bytes"])
    return (
        f"Checkpoints are large because the watermark at {found['stage']} lags: its open windows "
        f"are {100 * share:.0f} % of their state, {now} on average, as each is kept for "
        f"{_time(found['kept_ms'])} and the lag of {_time(found['lag_ms'])}; without the lag it "
        f"would be about {without}."
    )


def _time(ms: float) -> str:
    """Return a time with three digits, so that a median and a maximum near it differ."""
    if ms >= 1000:
        return f"{ms / 1000:,.{2 if ms < 10_000 else 1 if ms < 100_000 else 0}f} s"
    return f"{ms:,.0f} ms" if ms >= 1 else "under 1 ms"
