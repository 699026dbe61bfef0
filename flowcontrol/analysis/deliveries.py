"""What the readers of sinks saw in a run: rows, rows twice, rows lost, and how late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flowcontrol.analysis.wording import join_words, seconds
from flowcontrol.scenario import Scenario, Stage

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"


def delivery_summary(
    table: pa.Table,
    scenario: Scenario,
    staged: Mapping[str, int],
    e2e: Mapping[str, float] | None,
    notification_ms: float,
) -> dict[str, Any]:
    """Return what ``summary.json`` says of what readers saw.

    A row waits for the next barrier, which takes half an interval in the median and a whole one at
    the most, for the end of that checkpoint, and for its notification.

    - ``table``: ``delivery`` of a run.
    - ``e2e``: durations of completed checkpoints as in ``summary.json``: ``p50_ms`` and ``max_ms``.
    - ``notification_ms`` (ms): from the end of a checkpoint until the tasks hear of it.

    Returns ``sinks``, of each by its name ``guarantee``, ``written``, ``visible`` (rows, those that
    are there twice included), ``twice``, ``lost``, ``staged``, and of an exactly-once sink
    ``visibility_p50_ms`` (of the samples' medians, each counted with its rows),
    ``visibility_max_ms`` and ``expected_p50_ms``, ``expected_max_ms``, the closed form; null where
    there is none. ``sentences``, one of each sink; ``losses``, one of each sink that lost records
    as its transactions expired; ``unaccounted``, one of each sink that promises more than
    at-least-once but has no rows in the table, and no figures here.
    """
    frame = table.to_pandas()
    known = set(frame["stage"]) if len(frame) else {stage.name for stage in scenario.sinks}
    sinks = {
        stage.name: {
            "guarantee": stage.guarantee,
            **_counts(frame[frame["stage"] == stage.name]),
            "staged": staged.get(stage.name, 0),
            **_latencies(stage.guarantee, frame[frame["stage"] == stage.name]),
            **_expected(stage.guarantee, scenario, e2e, notification_ms),
        }
        for stage in scenario.sinks
        if stage.name in known
    }
    return {
        "sinks": sinks,
        "sentences": [_sentence(name, own) for name, own in sinks.items()],
        "losses": [text for name, own in sinks.items() for text in _losses(name, own, scenario)],
        "unaccounted": [
            _unaccounted(stage, scenario)
            for stage in scenario.sinks
            if stage.name not in known and stage.guarantee != AT_LEAST_ONCE
        ],
    }


def _counts(rows: pd.DataFrame) -> dict[str, int]:
    """Return the counts at the last sample, of all subtasks together."""
    names = {"written": "written", "visible": "committed", "twice": "visible_twice", "lost": "lost"}
    last = rows[rows["t_s"] == rows["t_s"].max()]
    return {name: int(last[column].sum()) for name, column in names.items()}


def _latencies(guarantee: str, rows: pd.DataFrame) -> dict[str, float | None]:
    found: dict[str, float | None] = {"visibility_p50_ms": None, "visibility_max_ms": None}
    shown = rows[rows["visibility_p50_ms"].notna()]
    if guarantee != EXACTLY_ONCE or shown.empty:
        return found
    growth = rows.groupby("subtask")["committed"].diff().fillna(rows["committed"])
    ordered = shown.assign(rows=growth[shown.index]).sort_values("visibility_p50_ms")
    upto = ordered["rows"].cumsum()
    middle = ordered[upto >= upto.iloc[-1] / 2].iloc[0]
    found["visibility_p50_ms"] = round(float(middle["visibility_p50_ms"]), 6)
    found["visibility_max_ms"] = round(float(shown["visibility_max_ms"].max()), 6)
    return found


def _expected(
    guarantee: str, scenario: Scenario, e2e: Mapping[str, float] | None, notification_ms: float
) -> dict[str, float | None]:
    own = scenario.checkpointing
    if guarantee != EXACTLY_ONCE or own is None or own.interval_us is None or e2e is None:
        return {"expected_p50_ms": None, "expected_max_ms": None}
    interval_ms = own.interval_us / 1000
    return {
        "expected_p50_ms": round(interval_ms / 2 + e2e["p50_ms"] + notification_ms, 6),
        "expected_max_ms": round(interval_ms + e2e["max_ms"] + notification_ms, 6),
    }


def _losses(name: str, own: Mapping[str, Any], scenario: Scenario) -> Iterator[str]:
    """Yield why a sink lost records, if its transactions expired.

    Below a sink whose timeout exceeds interval, checkpoint and notification, a source that cannot
    rewind may be the reason as well: then nothing is named.
    """
    limit_us, most_ms = scenario.stage(name).transaction_timeout_us, own["expected_max_ms"]
    if not own["lost"] or limit_us is None:
        return
    text = f"{name} lost {own['lost']:,} of the {own['written']:,} records that it wrote, as "
    limit = f"transaction_timeout_s, {limit_us / 1e6:g} s"
    above = scenario.upstream(name)
    if most_ms is not None and limit_us < 1000 * most_ms:
        text += (
            f"{limit}, is shorter than the {round(most_ms / 1000, 2):,} s from a checkpoint to the "
        )
        text += "commit of the next"
    elif all(source.replayable for source in scenario.sources if source.name in above):
        text += f"transactions waited longer for their commit than {limit}"
    else:
        return
    yield f"{text}; state more than interval, checkpoint and restart take together."


def _unaccounted(stage: Stage, scenario: Scenario) -> str:
    """Return why nothing is known of what the readers of a sink see."""
    above = [scenario.stage(name) for name in scenario.upstream(stage.name)]
    windows = [one.name for one in above if one.window is not None]
    text = f"{stage.name} ({stage.guarantee}): what its readers see is not accounted for"
    if windows:
        text += (
            f": in a job that may restart, nobody knows which results {join_words(windows)} would "
            "put out again"
        )
    return f"{text}."


def _sentence(name: str, own: Mapping[str, Any]) -> str:
    text = f"{name} ({own['guarantee']}): readers see {own['visible']:,} rows"
    text += f", {own['twice']:,} of them a second time" if own["twice"] else ", none twice"
    text += f"; {own['lost']:,} records are lost" if own["lost"] else "; no record is lost"
    if own["staged"]:
        text += f", {own['staged']:,} are written and not committed"
    if own["visibility_max_ms"] is None:
        return f"{text}."
    middle, most = own["visibility_p50_ms"] / 1e3, own["visibility_max_ms"] / 1e3
    text += f". A row was visible {seconds(middle)} s after it was written in the median"
    text += f", {seconds(most)} s at the most"
    if own["expected_max_ms"] is None:
        return f"{text}."
    half, whole = own["expected_p50_ms"] / 1e3, own["expected_max_ms"] / 1e3
    return (
        f"{text}; half an interval and a whole one, with checkpoint and notification, give "
        f"{seconds(half)} s and {seconds(whole)} s."
    )


def shown_rows(table: pa.Table, sinks: Sequence[str]) -> list[tuple[float, int, int, int]]:
    """Return of each sample its time, and what readers of some sinks see: rows, twice, lost."""
    frame = table.to_pandas()
    frame = frame[frame["stage"].isin(sinks)]
    sums = frame.groupby("t_s")[["committed", "visible_twice", "lost"]].sum()
    times, rows = [float(t_s) for t_s in sums.index], sums.to_numpy().tolist()
    return [(t_s, int(a), int(b), int(c)) for t_s, (a, b, c) in zip(times, rows, strict=True)]
