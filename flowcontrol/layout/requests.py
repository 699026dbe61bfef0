"""What sinks with requests in flight begin with: settings in rounds, and their destinations."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from flowcontrol.layout.graph import JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.shares import weights_of_keys
from flowcontrol.protocol.network.partitioners import integer_weights
from flowcontrol.protocol.requests.blocking import start_interval
from flowcontrol.protocol.requests.destination import WHOLE
from flowcontrol.protocol.service import CONSTANT, EXPONENTIAL, LOGNORMAL, MOST
from flowcontrol.scenario.connectors import RetryDefaults
from flowcontrol.scenario.request_parts import MOST_LATENCY_MS
from flowcontrol.scenario.requests import Requests
from flowcontrol.state.async_wait import WaitSettings
from flowcontrol.state.requests import (
    ASYNC,
    BLOCKING,
    NEVER,
    PRODUCER,
    Backoff,
    Bucket,
    Destination,
    SinkWriter,
    WriterSettings,
)

_STYLES = {
    "async": ASYNC,
    "blocking": BLOCKING,
    "producer": PRODUCER,
    "await": ASYNC,
    "lookup": ASYNC,
}
_MILLION = 1_000_000
_DISTRIBUTIONS = {"constant": CONSTANT, "exponential": EXPONENTIAL, "lognormal": LOGNORMAL}


def writer_settings(job: Job, requests: Requests) -> WriterSettings:
    """Return what a writer may do; times are rounds, rounded up."""
    limiting, block_us = requests.limiting, requests.max_block_us
    return WriterSettings(
        style=_STYLES[requests.own_style],
        batch=requests.batch_most,
        batch_bytes=requests.bytes_most,
        in_flight=requests.in_flight_most,
        buffered=requests.buffered_most,
        buffer_time=_buffer_time(job, requests),
        timeout=_timeout(job, requests),
        has_window=int(limiting is not None),
        increase=0 if limiting is None else limiting.increase,
        decrease=int(requests.decrease * 1_000_000),
        threshold=0 if limiting is None else requests.window_most,
        retry=_backoff(job, requests.retrying),
        is_whole=int(requests.retrying.whole),
        flushes=int(requests.flush_on_checkpoint),
        partitions=requests.partitions,
        memory=requests.pool_bytes,
        request_bytes=requests.request_bytes_most,
        max_block=NEVER if block_us is None else _rounds(job, block_us),
    )


def _buffer_time(job: Job, requests: Requests) -> int:
    """Return a time in rounds; without any a producer sends at once, and others have no timer."""
    if requests.buffer_us > 0:
        return _rounds(job, requests.buffer_us)
    return 0 if requests.is_producer else NEVER


def _backoff(job: Job, retry: RetryDefaults) -> Backoff:
    """Return when what failed is sent again; JDBC sleeps for none of its delays at first."""
    delay_us, is_linear = int(retry.delay_ms * 1000), retry.growth == "linear"
    found = Backoff(
        retries=retry.attempts,
        first_us=0 if is_linear else delay_us,
        step_us=delay_us if is_linear else 0,
        multiplier=int(retry.multiplier * 1_000_000),
        is_steep=int(retry.growth == "elasticsearch"),
        unit_us=job.round_us,
    )
    if retry.max_delay_ms is not None:
        found.most_us = int(retry.max_delay_ms * 1000)
    return found


def _rounds(job: Job, us: int) -> int:
    return max(1, -(-us // job.round_us))


def _timeout(job: Job, requests: Requests) -> int:
    return NEVER if requests.timeout_us is None else _rounds(job, requests.timeout_us)


def wait_settings(job: Job, requests: Requests) -> WaitSettings:
    """Return what an operator may do that calls a service; delays are microseconds."""
    own = requests.retrying
    most = own.max_delay_ms
    if most is None:
        most = own.delay_ms if own.multiplier == 1 else MOST_LATENCY_MS
    return WaitSettings(
        capacity=requests.in_flight_most,
        is_ordered=int(requests.ordered),
        is_blocking=int(requests.own_style == "lookup"),
        timeout=_timeout(job, requests),
        retries=own.attempts,
        retries_errors=int("error" in requests.repeated),
        retries_empty=int("empty" in requests.repeated),
        delay=int(own.delay_ms * 1000),
        multiplier=int(own.multiplier * 1000),
        longest_delay=int(most * 1000),
        delay_units=job.round_us,
    )


def hit_share(job: Job, plan: JobVertex) -> int:
    """Return the share of records whose answer a cache has, millionths."""
    requests = plan.stage.requests
    cache = None if requests is None else requests.cache
    if cache is None:
        return 0
    if cache.rows is None:
        return int((cache.hit or 0) * _MILLION)
    edge = job.scenario.inputs(plan.stage.name)[0]
    if edge.key_distribution is not None:
        weights = weights_of_keys(edge.key_distribution)
    else:
        weights = integer_weights((edge.key_weights or {}).values())
    return int(lru_hits(weights, cache.rows * len(set(plan.stage.placement))) * _MILLION)


def lru_hits(weights: Sequence[int], rows: int) -> float:
    """Return the share of hits of a cache from which the least recently used key goes first.

    Che's approximation: a key is in it if it came in the last T records, with the T at which that
    is so of as many keys as there are rows.
    """
    shares = np.asarray(weights, float) / np.sum(weights, dtype=float)
    if rows >= np.count_nonzero(shares):
        return 1.0
    low, high = 0.0, 1.0
    while np.sum(-np.expm1(-shares * high)) < rows:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        if np.sum(-np.expm1(-shares * middle)) < rows:
            low = middle
        else:
            high = middle
    return float(np.sum(shares * -np.expm1(-shares * high)))


def new_writer(requests: Requests, settings: WriterSettings) -> SinkWriter:
    """Return a writer at the start of a run."""
    limiting = requests.bucket
    found = SinkWriter(window=requests.first_window)
    if limiting is not None:
        found.bucket = _bucket(limiting.records_per_s, limiting.burst_s)
    start_interval(settings, found, 0)
    return found


def new_destination(requests: Requests) -> Destination:
    """Return a destination at the start of a run: its buckets are full."""
    limit, errors = requests.limit, requests.errors
    found = Destination(
        distribution=_DISTRIBUTIONS[requests.latency_distribution],
        variation=int((requests.latency_cv or 1) * 1_000_000),
        record_ns=int(requests.per_record_ms * 1_000_000),
        kb_ns=int(requests.per_kb_ms * 1_000_000),
    )
    if errors is not None:
        found.request_errors = int(errors.request * 1_000_000)
        found.record_errors = int(errors.record * 1_000_000)
        found.empty_answers = int(errors.empty * 1_000_000)
    if limit is not None:
        found.records = _bucket(limit.records_per_s, limit.burst_s)
        found.requests = _bucket(limit.requests_per_s, limit.burst_s)
    return found


def _bucket(rate: Fraction | None, burst_s: Fraction) -> Bucket:
    """Return a full bucket; one of at least a token, so that anything passes at all."""
    if rate is None:
        return Bucket()
    most = min(MOST, max(WHOLE, int(rate * burst_s * WHOLE)))
    return Bucket(rate=max(1, round(rate * 1000)), most=most, tokens=most)
