"""The classic experiment's check, on the result tables of whatever run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa

MOST = 1000.0
"""Records/s of the producer at 100 %."""

RECORDS_IN_A_BUFFER = 4096 / 200

PHASES = {(0, 20): 0.60, (20, 40): 0.30, (40, 60): 1.00, (60, 80): 0.30, (80, 100): 1.00}
"""Share of its maximum at which the producer is to run, by (from, until) in seconds."""

CONSUMER_LIMITS = ((20, 40), (60, 80))

INTERVAL_S = 5
TOLERANCE = 0.03

EXCLUSIVE, FLOATING, POOL = 27, 10, 37
CREDIT_UNDER_WAY = 5
"""Buffers that the credits under way are worth at 30 %: 90 records in the 300 ms to the sender are
4.4 buffers, and one is half read. Its messages are as long on their way back."""


def violations(tables: dict[str, pa.Table]) -> list[str]:
    """Return what a run of conf/experiment.yaml does not show of what it is to show."""
    stages, channels = (tables[name].to_pandas() for name in ("stages", "channels"))
    producer = stages[stages.stage == "producer"].set_index("t_s")
    consumer = stages[stages.stage == "consumer"].set_index("t_s")
    return [
        *_rate_violations("producer", producer.records_out),
        *_rate_violations("consumer", consumer.records_in, first=INTERVAL_S),
        *(text for phase in CONSUMER_LIMITS
          for text in _limited(phase, producer, channels.set_index("t_s"))),
        *_free(producer),
    ]  # fmt: skip


def _rate_violations(stage: str, records: pd.Series[Any], first: int = 0) -> Iterator[str]:
    """Compare each 5 s average that holds no change of phase, nor follows on one.

    What the consumer takes up in the first interval is a round less: the first messages travel.
    """
    counts = {0.0: 0, **records.to_dict()}
    for (start, end), share in PHASES.items():
        for at in range(start + INTERVAL_S if start else first, end, INTERVAL_S):
            rate = (counts[at + INTERVAL_S] - counts[at]) / INTERVAL_S
            if abs(rate - share * MOST) > TOLERANCE * share * MOST:
                yield f"{stage} ran at {rate:g}/s from {at} s, not at {share:.0%} of {MOST:g}/s"


def _limited(phase: tuple[int, int], producer: Any, channels: Any) -> Iterator[str]:
    """While the consumer limits: full pools, no credit, and nothing in flight beside them."""
    start, end = phase
    for t in range(start + INTERVAL_S, end + 1):
        row, pool = channels.loc[t], producer.loc[t]
        held = pool.output_pool_used + row.sent - row.consumed
        at = f"at {t} s"
        if abs(row.released - row.consumed - held) > 1:
            yield f"{at} {row.released - row.consumed} messages in flight, the pools hold {held}"
        # The buffer that is being read is half in flight, half taken up.
        if abs(row.in_flight_records / RECORDS_IN_A_BUFFER - (held - 1)) > 1:
            yield f"{at} {row.in_flight_records} records in flight, the pools hold {held} buffers"
        if row.in_flight_bytes != row.in_flight_records * 200:
            yield f"{at} {row.in_flight_bytes} bytes are not {row.in_flight_records} records"
        if (row.credit, row.floating_held) != (0, FLOATING):
            yield f"{at} the credit is {row.credit}, {row.floating_held} floating buffers are held"
        if row.announced - row.consumed != EXCLUSIVE + FLOATING:
            yield f"{at} {row.announced - row.consumed} buffers are promised, not all"
        if pool.output_pool_size != POOL or not 0 <= POOL - pool.output_pool_used <= (
            CREDIT_UNDER_WAY
        ):
            yield f"{at} the producer's pool holds {pool.output_pool_used} of {POOL}"
        if not 0 <= EXCLUSIVE + FLOATING - (row.queued + 1) <= 2 * CREDIT_UNDER_WAY:
            yield f"{at} the consumer holds {row.queued} buffers of {EXCLUSIVE + FLOATING}"
        if pool.backpressured_ms_per_s == 0:
            yield f"{at} the producer is not blocked"


def _free(producer: Any) -> Iterator[str]:
    """While the producer's own rate limits, nothing blocks it."""
    for (start, end), _ in PHASES.items():
        if (start, end) not in CONSUMER_LIMITS:
            blocked = producer.loc[start + INTERVAL_S + 1 : end].backpressured_ms_per_s
            if blocked.any():
                yield f"the producer was blocked for {blocked.max():g} ms/s by {end} s"
