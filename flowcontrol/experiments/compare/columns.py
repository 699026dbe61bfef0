"""Every column of the tables of a comparison, once."""

from __future__ import annotations

from typing import Any, Final

from flowcontrol.experiments.compare.outcome import Outcome
from flowcontrol.records import Column, Table

_SYSTEM = Column("system", "string", "", "Name of the system.")

RESULTS: Final = Table(
    "results",
    "One system.",
    (
        _SYSTEM,
        Column("state", "string", "", '"ran", "refused" or "failed".'),
        Column("reason", "string", "", "Why it was refused or failed; else empty."),
        Column("produced", "int64", "records", "What all sources emitted."),
        Column("consumed", "int64", "records", "What all sinks took up."),
        Column("of_limit", "float64", "ratio", "consumed over what the sinks take at the limit."),
        Column("latency_p50_ms", "float64", "ms", "Median latency of all records."),
        Column("latency_p99_ms", "float64", "ms", "99th percentile of the same."),
        Column("peak_records", "int64", "records", "Most in flight at a sample, all channels."),
        Column("peak_bytes", "int64", "bytes", "Most in flight at a sample, all channels."),
        Column("swing", "float64", "ratio", "Coefficient of variation of the producers' rate."),
        Column(
            "ahead", "float64", "ratio", "Producers' rate over a phase's limit, less 1, at most."
        ),
        Column("slowdowns", "int64", "", "Falls of the limit that count."),
        Column("slowdowns_missed", "int64", "", "Of those: the producers never came down to it."),
        Column("follow_s", "float64", "s", "Longest time to follow one of the others."),
        Column("releases", "int64", "", "Rises of the limit that count."),
        Column("releases_missed", "int64", "", "Of those: the producers never came up to it."),
        Column("recovery_s", "float64", "s", "Longest time to be up with one of the others."),
        Column("control_per_mb", "float64", "1/MB", "Control messages over megabytes moved."),
        Column("is_bounded", "string", "", '"yes", "no", or empty where the run does not say.'),
        Column("heap_exhausted_s", "float64", "s", "When a heap was full; null: never."),
        Column("rounds", "int64", "", "Rounds that were run."),
        Column("round_ms", "float64", "ms", "Emulated time of each."),
        Column("wall_s", "float64", "s", "Real time of the run."),
    ),
)

RATES: Final = Table(
    "rates",
    "A sample of one system; of a long run the mean of some samples.",
    (
        _SYSTEM,
        Column("t_s", "float64", "s", "Emulated time of the sample."),
        Column("produced", "float64", "records/s", "All sources, since the sample before."),
        Column("consumed", "float64", "records/s", "All sinks, since the sample before."),
        Column("in_flight", "float64", "records", "Level, all channels."),
    ),
)


def bounded_text(is_bounded: bool | None) -> str:
    """Return ``yes``, ``no``, or nothing where it is not known."""
    return "" if is_bounded is None else "yes" if is_bounded else "no"


def result_row(outcome: Outcome) -> dict[str, Any]:
    """Return the row of a system in :data:`RESULTS`; figures that it has not are null."""
    row: dict[str, Any] = dict.fromkeys(RESULTS.names)
    row |= {"system": outcome.system, "state": outcome.state, "reason": outcome.reason}
    figures = outcome.figures
    if figures is None:
        return row
    row |= {name: getattr(figures, name) for name in RESULTS.names if hasattr(figures, name)}
    row |= {name: getattr(outcome, name) for name in ("rounds", "round_ms", "wall_s")}
    row["is_bounded"] = bounded_text(figures.is_bounded)
    for slowdown, (count, longest) in (
        (True, ("slowdowns", "follow_s")),
        (False, ("releases", "recovery_s")),
    ):
        missed, after_s = figures.after(slowdown=slowdown)
        row |= {count: figures.count(slowdown=slowdown), f"{count}_missed": missed}
        row[longest] = after_s
    return row


def rate_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the rows of a system in :data:`RATES`."""
    lines = outcome.lines
    if lines is None:
        return []
    samples = zip(lines.t_s, lines.produced, lines.consumed, lines.in_flight, strict=True)
    return [dict(zip(RATES.names, (outcome.system, *sample), strict=True)) for sample in samples]
