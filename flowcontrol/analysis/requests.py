"""Requests of sinks in a run: figures of each sink, what limits it, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from flowcontrol.analysis.frames import (
    Tables,
    combine_latencies,
    end_of,
    latency_panel,
    mean_over_time,
    result_frame,
)
from flowcontrol.analysis.wording import percent
from flowcontrol.records import ACKNOWLEDGED
from flowcontrol.scenario import Scenario, Stage

if TYPE_CHECKING:
    import pandas as pd

Limit = Literal[
    "destination",
    "in_flight",
    "window",
    "bucket",
    "batches",
    "blocking",
    "producer",
    "records",
    "calls",
    "order",
    "lookup",
]

WAITS: Final = 0.05
"""Share of the time from which on a sink is limited by its requests."""
FULL: Final = 0.95
"""Share of what may be in flight from which on that limits."""
GAINED: Final = 0.1
"""Share of the time of a request that is the same for any batch from which on larger ones help."""
QUEUED: Final = 0.1
"""Share of a queue that is answered from which on its order is named."""
REFUSED: Final = 0.01
"""Share of the records sent from which on the limit of the destination is named."""

ADVICE: Final[dict[Limit, str]] = {
    "destination": "raise the limit of the destination, or send it less",
    "in_flight": "allow more requests in flight (in_flight), or larger ones (batch_records)",
    "window": "see what fails, or let the window grow faster and shrink less (rate_limiting)",
    "blocking": "write larger batches (batch_records, batch_bytes), or from more subtasks",
    "producer": "write larger requests (batch_bytes, partitions, record_bytes_max), or allow more "
    "of them in flight (in_flight)",
    "records": "have the destination spend less on a record (per_record_ms, per_kb_ms), or write "
    "from more subtasks",
    "bucket": "raise rate_limiting.records_per_s if the destination takes more",
    "batches": "have requests leave full: raise batch_bytes, or make buffered a multiple of "
    "batch_records",
    "calls": "allow more calls in flight (in_flight), or keep answers (cache)",
    "order": "let records leave as they are answered (ordered: false), or allow more in the queue "
    "(in_flight)",
    "lookup": "call without waiting (style: await), or keep answers (cache)",
}
"""What helps, by what limits."""

_REASONS: Final[dict[Limit, str]] = {
    "destination": "the destination takes no more",
    "in_flight": "as many requests as may be are in flight",
    "blocking": "its thread waits for each request, whatever its size",
    "producer": "as many requests as may be are in flight",
    "records": "the destination spends nearly all of its time on the records themselves",
    "window": "rate limiting holds requests back",
    "bucket": "it has sent as many records as its own rate limit allows",
    "batches": "requests leave before they are full",
    "calls": "as many calls as may be are in flight",
    "order": "its queue is full of records that are answered and not the next in order",
    "lookup": "its thread waits for each answer",
}

_COUNTERS: Final = (
    "requests", "records_sent", "records_acknowledged", "records_retried", "records_throttled",
    "timeouts", "records_doubled", "records_replayed", "requests_exhausted",
)  # fmt: skip


def request_summary(tables: Tables, scenario: Scenario) -> dict[str, Any]:
    """Return what ``summary.json`` says of the requests of a run.

    Returns ``stages``, by sink: ``rate`` (records/s acknowledged), ``in_flight`` (requests),
    ``in_flight_records`` and ``buffered_records``, means of a subtask; ``batch_mean`` (records);
    ``latency_ms`` of a request, ``acknowledged`` (latencies of records up to their
    acknowledgement); ``window`` (records: ``min``, ``mean``, ``end``; null under no rate limiting);
    ``requests``, ``records_sent``, ``records_acknowledged``, ``records_retried``,
    ``records_throttled``, ``timeouts``, ``records_doubled``, ``records_replayed`` and
    ``requests_exhausted`` of the whole run; ``waited_share`` of the time; ``limit``:
    ``destination``, ``in_flight``, ``window``, ``batches``, ``blocking``, ``producer``,
    ``records`` or null; and ``sentences``.
    """
    frame = result_frame(tables, "requests")
    stages, sentences = dict[str, Any](), list[str]()
    for stage in scenario.stages:
        rows = frame[frame["stage"] == stage.name]
        if stage.requests is not None and not rows.empty:
            latencies = latency_panel(tables, ACKNOWLEDGED).of("stage", stage.name)
            found = {
                **request_figures(rows, end_of(tables)),
                "acknowledged": combine_latencies(latencies),
            }
            found["limit"] = limit_of(stage, found)
            stages[stage.name] = found
            is_operator = stage.requests.is_of_operator
            sentences += (_call_sentences if is_operator else _sentences)(stage.name, found)
            if found["records_replayed"] and not is_operator:
                sentences.append(_replayed(stage, found["records_replayed"]))
    return {"stages": stages, "sentences": sentences}


def request_figures(rows: pd.DataFrame, length_s: float) -> dict[str, Any]:
    """Return the figures of a sink over some samples.

    - ``rows``: of the table ``requests``, in the order of time.
    - ``length_s``: time that they cover, s.
    """
    ends = rows.groupby("subtask")[list(_COUNTERS)].agg(["first", "last"])
    is_whole = rows["t_s"].min() <= rows["interval_s"].iloc[0]
    grown = {
        name: int(ends[name]["last"].sum() - (0 if is_whole else ends[name]["first"].sum()))
        for name in _COUNTERS
    }
    answered = rows.dropna(subset=["latency_mean_ms"])
    known = rows.dropna(subset=["window"])
    return {
        "rate": grown["records_acknowledged"] / length_s if length_s > 0 else 0.0,
        **{
            name: mean_over_time(rows, name)
            for name in ("in_flight", "in_flight_records", "buffered_records")
        },
        "batch_mean": grown["records_sent"] / grown["requests"] if grown["requests"] else None,
        "latency_ms": float(answered["latency_mean_ms"].mean()) if len(answered) else None,
        "window": None
        if known.empty
        else {
            "min": float(known["window"].min()),
            "mean": mean_over_time(known, "window"),
            "end": float(known[known["t_s"] == known["t_s"].max()]["window"].mean()),
        },
        **grown,
        "waited_share": mean_over_time(rows, "waited_ms_per_s") / 1000,
    }


def limit_of(stage: Stage, found: Mapping[str, Any]) -> Limit | None:
    """Return what limits a sink that waits for its requests; None if it hardly does."""
    requests = stage.requests
    if requests is None or found["waited_share"] < WAITS or not found["records_sent"]:
        return None
    if found["records_throttled"] > REFUSED * found["records_sent"]:
        return "destination"
    if requests.own_style == "lookup":
        return "lookup"
    if requests.is_of_operator:
        waiting = found["buffered_records"]
        return "order" if waiting > QUEUED * (waiting + found["in_flight"]) else "calls"
    if not requests.is_async:
        gain = requests.mean_latency_ms / (found["latency_ms"] or requests.mean_latency_ms or 1)
        if gain < GAINED:
            return "records"
        return "producer" if requests.is_producer else "blocking"
    if found["in_flight"] >= FULL * requests.in_flight_most:
        return "in_flight"
    if requests.bucket is not None:
        return "bucket"
    window = found["window"]
    if window is not None and window["mean"] < FULL * requests.window_most:
        return "window"
    return "batches"


def limit_sentence(stage: str, found: Mapping[str, Any], limit: Limit) -> str:
    """Return how long a sink waited for its requests, and why."""
    batch, in_flight = found["batch_mean"] or 0.0, found["in_flight"]
    return (
        f"{stage} waited for its requests {percent(found['waited_share'])} of the time: "
        f"{_REASONS[limit]} ({in_flight:,.1f} requests of {batch:,.1f} records in flight)"
    )


def _sentences(stage: str, found: Mapping[str, Any]) -> Iterator[str]:
    if not found["requests"]:
        yield f"{stage} sent no request."
        return
    took = "" if found["latency_ms"] is None else f", {found['latency_ms']:,.0f} ms each"
    yield (
        f"{stage}: the destination acknowledged {found['rate']:,.0f} records/s, in requests of "
        f"{found['batch_mean']:,.1f} records{took}."
    )
    if found["limit"] is not None:
        yield f"{limit_sentence(stage, found, found['limit'])}; {ADVICE[found['limit']]}."
    if found["records_retried"]:
        share = percent(found["records_retried"] / found["records_sent"])
        why = f", {found['records_throttled']:,} records as its limit was reached"
        yield (
            f"{share} of what {stage} sent failed and was sent again"
            f"{why if found['records_throttled'] else ''}."
        )
    if found["requests_exhausted"]:
        yield (
            f"{found['requests_exhausted']:,} times a request of {stage} failed for the last time "
            "(retry.attempts): Flink fails the job then, and here its attempts began anew."
        )
    if found["timeouts"]:
        yield (
            f"{found['timeouts']:,} requests of {stage} timed out; the destination stored "
            f"{found['records_doubled']:,} records more than once."
        )


def _replayed(stage: Stage, count: int) -> str:
    seen = "may be stored twice"
    if stage.guarantee == "exactly-once":
        seen = "were in a transaction that was aborted"
    return (
        f"{count:,} records that {stage.name} had sent before a failure {seen}: they came behind "
        "the checkpoint that was restored."
    )


def _call_sentences(stage: str, found: Mapping[str, Any]) -> Iterator[str]:
    if not found["requests"]:
        yield f"{stage} called no service."
        return
    took = "" if found["latency_ms"] is None else f", {found['latency_ms']:,.0f} ms each"
    yield f"{stage}: its service answered {found['rate']:,.0f} calls/s{took}."
    if found["limit"] is not None:
        yield f"{limit_sentence(stage, found, found['limit'])}; {ADVICE[found['limit']]}."
    share = percent(found["records_retried"] / found["records_sent"])
    if share != percent(0):
        yield f"{share} of the calls of {stage} had no result, failed or timed out."
