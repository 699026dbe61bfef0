"""Changes of stages that wait for a destination: more in flight, larger batches, no waiting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.experiments.advise.result import Change, KeyPath, Subject

if TYPE_CHECKING:
    from flowcontrol.scenario import Stage
    from flowcontrol.scenario.requests import Requests

_WAITS: Final = 0.05
"""Busy share from which on a sink with requests may wait for them."""

_GENTLE: Final = 0.6
"""Factor above which a window hardly shrinks when a destination refuses records."""

MOST_IN_FLIGHT: Final = 10_000
"""Calls of an operator that may be in flight."""
IN_FLIGHT: Final = 10
"""Requests in flight of a sink that no longer waits for each."""

_KEPT: Final = (
    *("latency_ms", "latency_distribution", "latency_cv", "per_record_ms", "per_kb_ms"),
    *("limit", "errors"),
)
"""Keys of requests that say what the destination does, whoever writes to it."""


def request_changes(subject: Subject) -> Iterator[Change]:
    """More requests in flight, larger ones, and one that does not wait for each answer."""
    for stage in subject.scenario.stages:
        seen = subject.seen
        waits = stage.name == seen.limits or seen.busiest[stage.name] > _WAITS
        if stage.requests is None or not waits:
            continue
        if stage.requests.is_of_operator:
            yield from _calls(subject, stage, stage.requests)
            continue
        if stage.requests.is_async:
            yield from _in_flight(subject, stage, stage.requests)
        yield from _batches(subject, stage, stage.requests)
        if stage.requests.own_style == "blocking" and stage.guarantee != "exactly-once":
            yield _asynchronous(subject, stage, stage.requests)


def _path(subject: Subject, stage: Stage, key: str) -> KeyPath:
    return (*subject.path(stage.name, "requests"), key)


def _in_flight(subject: Subject, stage: Stage, own: Requests) -> Iterator[Change]:
    now = own.in_flight_most
    path = _path(subject, stage, "in_flight")
    for count in (4 * now, 2 * now, now // 2):
        if count > 0:
            why = "it waits for fewer answers" if count > now else "fewer are refused together"
            name = f"{count} requests of {stage.name} in flight instead of {now}"
            yield Change("requests in flight", name, ((path, count),), why)
    if own.limiting is not None and own.limit is not None and own.decrease > _GENTLE:
        name = f"a window of {stage.name} that is halved instead of multiplied by"
        path = _path(subject, stage, "rate_limiting")
        limiting = {**_stated(subject, stage).get("rate_limiting", {}), "decrease": 0.5}
        text = f"{name} {float(own.decrease):g}"
        yield Change("rate limiting", text, ((path, limiting),), "less is refused and sent again")
    if own.limiting is not None and own.limit is not None and own.limit.records_per_s is not None:
        rate = float(own.limit.records_per_s) / (stage.parallelism if own.shares_limit else 1)
        burst = max(1.0, own.batch_most / rate)
        keys = (
            (_path(subject, stage, "rate_limiting"), {"records_per_s": rate, "burst_s": burst}),
        )
        name = f"a token bucket of {rate:g} records/s in each subtask of {stage.name}"
        yield Change("rate limiting", name, keys, "it sends what the destination takes")


def _calls(subject: Subject, stage: Stage, own: Requests) -> Iterator[Change]:
    """Calls of an operator without waiting for each, more of them, and in any order."""
    if own.own_style == "lookup":
        kept = {key: one for key, one in _stated(subject, stage).items() if key != "retry"}
        keys = ((subject.path(stage.name, "requests"), {**kept, "style": "await"}),)
        name = f"calls of {stage.name} that it does not wait for, 100 at a time"
        caution = "It needs a client that calls asynchronously."
        yield Change("asynchronous", name, keys, "its thread goes on meanwhile", (caution,))
        return
    for count in (2 * own.in_flight_most, min(MOST_IN_FLIGHT, 4 * own.in_flight_most)):
        if count > MOST_IN_FLIGHT:
            continue
        name = f"{count} calls of {stage.name} at a time instead of {own.in_flight_most}"
        larger = ((_path(subject, stage, "in_flight"), count),)
        caution = "Only if the service takes so many at a time."
        yield Change("calls in flight", name, larger, "more are answered at a time", (caution,))
    if own.ordered:
        name = f"results of {stage.name} in the order of their answers"
        unordered = ((_path(subject, stage, "ordered"), False),)
        caution = "What follows has to do with records out of order."
        yield Change("order", name, unordered, "none waits for a slower one before it", (caution,))


def _batches(subject: Subject, stage: Stage, own: Requests) -> Iterator[Change]:
    if own.is_producer:
        now = own.bytes_most
        for size in (2 * now, 8 * now):
            name = f"batches of {size // 1024} KiB of {stage.name} instead of {now // 1024}"
            larger = ((_path(subject, stage, "batch_bytes"), size),)
            yield Change("batches", name, larger, "a request carries more records")
        return
    now = own.batch_most
    for count in (2 * now, 8 * now):
        keys = [(_path(subject, stage, "batch_records"), count)]
        if own.is_async and own.buffered_most <= 4 * count:
            keys.append((_path(subject, stage, "buffered"), 4 * count))
        name = f"requests of {count:,} records of {stage.name} instead of {now:,}"
        caution = "Only if the destination takes requests of that size."
        yield Change("batches", name, tuple(keys), "a request carries more records", (caution,))


def _asynchronous(subject: Subject, stage: Stage, own: Requests) -> Change:
    batch = own.batch_most
    kept = {key: one for key, one in _stated(subject, stage).items() if key in _KEPT}
    new = {
        **kept,
        "style": "async",
        "in_flight": IN_FLIGHT,
        "batch_records": batch,
        "buffered": 4 * batch,
        "buffer_s": 1,
    }
    name = f"requests of {stage.name} that it does not wait for, {IN_FLIGHT} in flight"
    cautions = (
        "It needs a connector that writes asynchronously.",
        "Records that fail come behind later ones.",
    )
    keys = ((subject.path(stage.name, "requests"), new),)
    return Change("asynchronous", name, keys, "its thread goes on meanwhile", cautions)


def _stated(subject: Subject, stage: Stage) -> Mapping[str, Any]:
    found: Mapping[str, Any] = subject.stated(stage.name, "requests") or {}
    return found


def commit_changes(subject: Subject) -> Iterator[Change]:
    """Fewer files in a commit, and a committer that holds no thread of the sink."""
    for stage in subject.scenario.stages:
        own = stage.commit
        if own is None:
            continue
        path = subject.path(stage.name, "commit")
        if own.files > 1 and own.per_file_ms > 0:
            name = (
                f"{own.files // 2} files of {stage.name} for each checkpoint instead of {own.files}"
            )
            caution = "Spread the records by the partitions of the table, before the sink."
            fewer = (((*path, "files"), own.files // 2),)
            yield Change("files", name, fewer, "a commit is shorter", (caution,))
        if not own.shared:
            name = f"one committer for all subtasks of {stage.name}"
            caution = "The table format has to offer it, as Iceberg and Delta do."
            keys = (((*path, "shared"), True),)
            yield Change("committer", name, keys, "no thread waits for a commit", (caution,))
