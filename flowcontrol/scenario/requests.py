"""Requests of a stage: their keys in the file, and the defaults of real connectors."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

from flowcontrol.scenario import fields as f
from flowcontrol.scenario.connectors import CONNECTORS, HALF, Connector, RetryDefaults, Style
from flowcontrol.scenario.refusals import faults
from flowcontrol.scenario.request_parts import (
    MOST_RECORDS,
    AddedMilliseconds,
    BatchBytes,
    BatchRecords,
    Cache,
    Distribution,
    Errors,
    InFlight,
    Latency,
    Limit,
    Partitions,
    RateLimiting,
    RateLimitings,
    Records,
    Retry,
)
from flowcontrol.scenario.schedule import MICROSECONDS

REQUEST_TIMEOUT_S: Final = 30
"""``request.timeout.ms`` of Kafka's producer, which has no key here."""
QUEUE: Final = 100
"""Capacity by default of ``AsyncDataStream``, as of ``table.exec.async-lookup.buffer-capacity``."""

_BATCHES: Final = frozenset({"batch_records", "batch_bytes", "buffer_s", "limit"})
_FLIGHT: Final = frozenset({"in_flight", "record_bytes_max", "timeout_s"})
_RETRY: Final = frozenset({"retry", "flush_on_checkpoint"})
_KEYS_OF: Final = {
    "async": _BATCHES | _FLIGHT | {"buffered", "rate_limiting"},
    "blocking": _BATCHES | _RETRY,
    "producer": _FLIGHT
    | _RETRY
    | {"batch_bytes", "buffer_s", "buffered_bytes", "partitions", "max_block_s"},
    "await": frozenset({"in_flight", "ordered", "timeout_s", "retry", "cache", "limit"}),
    "lookup": frozenset({"retry", "cache", "limit"}),
}
"""Keys that only some styles have, by style."""
_SOME: Final = frozenset().union(*_KEYS_OF.values())
_NEEDED: Final = {
    "async": ("in_flight", "batch_records", "buffered", "buffer_s"),
    "blocking": ("batch_records",),
    "producer": ("in_flight", "batch_bytes", "buffered_bytes"),
}
_PARTS: Final = {
    True: (("errors", "record"), ("retry", "growth"), ("retry", "whole")),
    False: (("errors", "empty"), ("retry", "when")),
}
"""Keys within keys that operators do not have, and those that sinks do not have."""


class Requests(f.Mapping):
    """A sink that writes in batches: it waits for each answer, or for none (``AsyncSinkBase``).

    Or an operator that calls a service for each record (``AsyncWaitOperator``, a lookup join).
    """

    quiet = frozenset(
        {
            *("style", "like", "in_flight", "batch_records", "batch_bytes", "buffered", "buffer_s"),
            *("buffered_bytes", "partitions", "max_block_s", "retry", "flush_on_checkpoint"),
            *("record_bytes_max", "timeout_s", "rate_limiting", "latency_distribution"),
            *("latency_cv", "per_record_ms", "per_kb_ms", "errors", "limit", "ordered", "cache"),
        }
    )

    style: Style | None = f.key("Requests.style")
    like: Connector | None = f.key("Requests.like")
    latency_ms: Latency = f.key("Requests.latency_ms", ...)
    latency_distribution: Distribution = f.key("Requests.latency_distribution", "constant")
    latency_cv: f.Variation | None = f.key("Requests.latency_cv")
    per_record_ms: AddedMilliseconds = f.key("Requests.per_record_ms", Fraction(0))
    per_kb_ms: AddedMilliseconds = f.key("Requests.per_kb_ms", Fraction(0))
    in_flight: InFlight | None = f.key("Requests.in_flight")
    batch_records: BatchRecords | None = f.key("Requests.batch_records")
    batch_bytes: BatchBytes | None = f.key("Requests.batch_bytes")
    buffered: Records | None = f.key("Requests.buffered")
    buffered_bytes: f.Bytes | None = f.key("Requests.buffered_bytes")
    buffer_s: f.Moment | None = f.key("Requests.buffer_s")
    record_bytes_max: f.Bytes | None = f.key("Requests.record_bytes_max")
    partitions: Partitions = f.key("Requests.partitions", 1)
    max_block_s: f.Moment | None = f.key("Requests.max_block_s")
    timeout_s: f.PositiveSeconds | None = f.key("Requests.timeout_s")
    rate_limiting: RateLimitings = f.key("Requests.rate_limiting", RateLimiting())
    retry: Retry | None = f.key("Requests.retry")
    flush_on_checkpoint: bool = f.key("Requests.flush_on_checkpoint", True, strict=True)
    limit: Limit | None = f.key("Requests.limit")
    errors: Errors | None = f.key("Requests.errors")
    ordered: bool = f.key("Requests.ordered", True, strict=True)
    cache: Cache | None = f.key("Requests.cache")

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between keys: a key and the refusal."""
        yield from faults("requests", self)

    def _value(self, name: str) -> Any:
        """Return what is stated, else the connector's default; None if there is neither."""
        own = getattr(self, name)
        if own is not None or self.like is None or self.is_unlike:
            return own
        return getattr(CONNECTORS[self.like], name)

    @property
    def own_style(self) -> Style:
        """Which writer it is: as stated, as the connector has it, or asynchronous."""
        return self.style or ("async" if self.like is None else CONNECTORS[self.like].style)

    @property
    def is_async(self) -> bool:
        """Whether it goes on while its requests are in flight."""
        return self.own_style == "async"

    @property
    def is_producer(self) -> bool:
        """Whether it is Kafka's producer."""
        return self.own_style == "producer"

    @property
    def is_of_index(self) -> bool:
        """Whether it is a bulk indexer, which has no transactions."""
        return self.like in {"elasticsearch-7", "elasticsearch-7-sql", "opensearch"}

    @property
    def is_of_operator(self) -> bool:
        """Whether an operator has them, which calls for each record and passes it on."""
        return self.own_style in {"await", "lookup"}

    @property
    def is_of_sink(self) -> bool:
        """Whether a sink has them."""
        return not self.is_of_operator

    @property
    def is_repeated_for_ever(self) -> bool:
        """Whether calls are repeated without a timeout, which Flink refuses."""
        return self.own_style == "await" and self.retry is not None and self.timeout_us is None

    @property
    def has_short_delay(self) -> bool:
        """Whether the longest delay between two calls is below the first one."""
        own = self.retrying
        most = own.max_delay_ms
        return self.is_of_operator and most is not None and most < own.delay_ms

    @property
    def is_unlike(self) -> bool:
        """Whether the connector that it is to be like has another style."""
        return self.like is not None and CONNECTORS[self.like].style != self.own_style

    @property
    def foreign(self) -> str:
        """The first stated key that its style does not have; empty if there is none."""
        stated = self.model_fields_set & _SOME - _KEYS_OF[self.own_style]
        found = [key for key in stated if self.is_written(key)]
        for key, name in _PARTS[self.is_of_operator]:
            part = getattr(self, key)
            if part is not None and name in part.model_fields_set and part.is_written(name):
                found.append(f"{key}.{name}")
        return min(found, default="")

    @property
    def missing(self) -> str:
        """Keys that no connector fills in, as text; empty if there are none."""
        names = () if self.is_unlike else _NEEDED.get(self.own_style, ())
        return ", ".join(name for name in names if self._value(name) is None)

    @property
    def zero(self) -> str:
        """The first key that is 0 and may not be so in its style; empty if there is none."""
        names = {
            "async": ("batch_records", "batch_bytes", "buffer_s"),
            "producer": ("batch_bytes",),
        }.get(self.own_style, ())
        return next((name for name in names if self._value(name) == 0), "")

    @property
    def retrying(self) -> RetryDefaults:
        """What it does with what failed: as stated, else as the connector has it."""
        found = RetryDefaults() if self.like is None else CONNECTORS[self.like].retry
        own = {} if self.retry is None else dict(self.retry)
        own.pop("when", None)
        return found._replace(**{key: one for key, one in own.items() if one is not None})

    @property
    def repeated(self) -> tuple[str, ...]:
        """After which outcomes an operator calls again: error, empty."""
        return ("error",) if self.retry is None else self.retry.when

    @property
    def batch_most(self) -> int:
        """Records of a request at the most."""
        most = MOST_RECORDS if self.own_style == "blocking" else 1
        return int(self._value("batch_records") or most)

    @property
    def in_flight_most(self) -> int:
        """Requests in flight at the most; of an operator the elements of its queue."""
        return int(self._value("in_flight") or (QUEUE if self.own_style == "await" else 1))

    @property
    def buffered_most(self) -> int:
        """Records in the buffer at the most, but for those that come back."""
        return int(self._value("buffered") or 2)

    @property
    def bytes_most(self) -> int:
        """Bytes of a request at the most; those that have a blocking one sent."""
        most = f.MAX_BYTES * (MOST_RECORDS if self.own_style == "blocking" else 1)
        return int(self._value("batch_bytes") or most)

    @property
    def record_most(self) -> int:
        """Bytes of a record at the most."""
        if self.own_style == "blocking":
            return f.MAX_BYTES
        if self.is_producer:
            return min(int(self._value("record_bytes_max") or f.MAX_BYTES), self.pool_bytes)
        return int(self._value("record_bytes_max") or self.bytes_most)

    @property
    def request_bytes_most(self) -> int:
        """Bytes of a producer's request at the most, but for one batch."""
        return int(self._value("record_bytes_max") or f.MAX_BYTES)

    @property
    def pool_bytes(self) -> int:
        """Bytes of a producer's batches at the most."""
        return int(self._value("buffered_bytes") or f.MAX_BYTES)

    @property
    def is_pool_too_small(self) -> bool:
        """Whether a producer's pool has no room for a batch."""
        return self.is_producer and not self.zero and self.pool_bytes < self.bytes_most

    @property
    def is_delivery_too_short(self) -> bool:
        """Whether a producer gives a batch up before a request of it can time out."""
        least_us = self.buffer_us + REQUEST_TIMEOUT_S * MICROSECONDS
        return self.is_producer and (self.timeout_us or 0) < least_us

    @property
    def max_block_us(self) -> int | None:
        """Time for which a producer's write waits for memory, microseconds; None: for ever."""
        own = self._value("max_block_s")
        return None if own is None else int(own * MICROSECONDS)

    def records_held(self, size: int) -> int:
        """Return how many records of a size, or larger, a subtask may hold beside one in hand."""
        if self.is_async:
            return self.most_records
        if self.is_producer:
            return self.pool_bytes // size + max(1, self.bytes_most // size)
        return self.in_flight_most if self.is_of_operator else self.batch_most

    @property
    def most_records(self) -> int:
        """Records that an asynchronous one may hold, in its buffer and in flight."""
        if not self.is_async:
            return 0
        return self.buffered_most + self.batch_most * self.in_flight_most

    @property
    def is_batch_too_large(self) -> bool:
        """Whether a full request leaves no room in the buffer, which Flink refuses."""
        return self.is_async and self.buffered_most <= self.batch_most

    @property
    def is_record_too_large(self) -> bool:
        """Whether the largest record does not fit into a request."""
        return self.is_async and self.record_most > self.bytes_most

    @property
    def is_never_let_through(self) -> bool:
        """Whether a full request needs more than its limit ever has, and goes as a whole."""
        if self.is_producer or not self.retrying.whole:
            return False
        if self.limit is None or self.limit.records_per_s is None:
            return False
        return self.batch_most > max(Fraction(1), self.limit.records_per_s * self.limit.burst_s)

    @property
    def is_unlimited(self) -> bool:
        """Whether there is a limit that limits nothing."""
        own = self.limit
        return own is not None and own.records_per_s is None and own.requests_per_s is None

    @property
    def buffer_us(self) -> int:
        """Time after which a record leaves the buffer, microseconds; 0: none."""
        return int(Fraction(self._value("buffer_s") or 0) * MICROSECONDS)

    @property
    def timeout_us(self) -> int | None:
        """Time after which a request counts as failed, or a batch is given up; None: never.

        Microseconds.
        """
        default = None if self.is_of_operator else 600
        if self.like is not None:
            default = CONNECTORS[self.like].timeout_s
        found = self.timeout_s or default
        return None if found is None else int(found * MICROSECONDS)

    @property
    def limiting(self) -> RateLimiting | None:
        """How the records in flight are limited by what fails; None: not at all."""
        return None if self.bucket is not None else self._limiting

    @property
    def bucket(self) -> RateLimiting | None:
        """How the records that are sent are limited; None: not at all."""
        own = self._limiting
        return None if own is None or own.records_per_s is None else own

    @property
    def _limiting(self) -> RateLimiting | None:
        return None if self.rate_limiting == "none" or not self.is_async else self.rate_limiting

    @property
    def has_two_limitings(self) -> bool:
        """Whether there is a token bucket, and keys of congestion control."""
        own = self.bucket
        keys = frozenset({"initial", "increase", "decrease", "threshold"})
        return own is not None and not keys.isdisjoint(own.model_fields_set)

    @property
    def has_burst_alone(self) -> bool:
        """Whether there is a time to collect tokens in, and no rate of them."""
        own = self.limiting
        return own is not None and "burst_s" in own.model_fields_set

    @property
    def is_bucket_too_small(self) -> bool:
        """Whether a full request needs more tokens than the bucket ever has."""
        own = self.bucket
        if own is None or own.records_per_s is None:
            return False
        return self.batch_most > max(Fraction(1), own.records_per_s * own.burst_s)

    @property
    def decrease(self) -> Fraction:
        """By which the window shrinks when something fails."""
        own = self.limiting
        if own is not None and own.decrease is not None:
            return own.decrease
        return HALF if self.like is None else CONNECTORS[self.like].decrease

    @property
    def first_window(self) -> int:
        """Records that may be in flight at first: a batch, unless stated."""
        own = self.limiting
        return (own.initial if own is not None else None) or self.batch_most

    @property
    def window_most(self) -> int:
        """Records that may be in flight at the most: all batches, unless stated."""
        own = self.limiting
        stated = None if own is None else own.threshold
        return stated or self.batch_most * self.in_flight_most

    @property
    def latency_phases(self) -> list[tuple[int, int]]:
        """From when on, and what an empty request takes in the mean, microseconds."""
        return [(int(phase.at_s * MICROSECONDS), int(phase.ms * 1000)) for phase in self.latency_ms]

    @property
    def mean_latency_ms(self) -> float:
        """What an empty request takes in the mean, over its phases."""
        return float(sum(phase.ms for phase in self.latency_ms)) / len(self.latency_ms)

    @property
    def shares_limit(self) -> bool:
        """Whether all subtasks share one limit."""
        return self.limit is not None and self.limit.shared
