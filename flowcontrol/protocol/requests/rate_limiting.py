"""How many records of a sink may be sent: congestion control by what fails, or a token bucket.

Sources: ``CongestionControlRateLimitingStrategy``, ``AIMDScalingStrategy`` (FLIP-242). The bucket
is the one that Flink's documents show as a strategy of one's own: a request needs as many tokens as
it asks for records.
"""

from flowcontrol.protocol.requests.destination import WHOLE, fill, take_tokens
from flowcontrol.state.requests import SinkWriter, WriterSettings

_WHOLE = 1_000_000


def scaled_up(settings: WriterSettings, window: int) -> int:
    """Return the window after a request without failures; a larger one falls to the threshold."""
    return min(window + settings.increase, settings.threshold)


def scaled_down(settings: WriterSettings, window: int) -> int:
    """Return the window after a request with failures, at least 1.

    A half is rounded up (``Math.round``): so a window stops falling at 0.5 / (1 - decrease).
    """
    return max(1, (2 * window * settings.decrease + _WHOLE) // (2 * _WHOLE))


def most_in_batch(settings: WriterSettings, writer: SinkWriter) -> int:
    """Return how many records a request may have (``getMaxBatchSize``)."""
    return min(settings.batch, writer.window) if settings.has_window == 1 else settings.batch


def should_block(settings: WriterSettings, writer: SinkWriter, records: int, now: int) -> int:
    """Tell whether a request of so many records has to wait (``shouldBlock``): 1 if so."""
    if writer.in_flight >= settings.in_flight:
        return 1
    if writer.bucket.rate > 0:
        fill(writer.bucket, us_of(settings, now))
        return 1 if writer.bucket.tokens // WHOLE < records else 0
    if settings.has_window == 0:
        return 0
    return 1 if writer.in_flight_records + records > writer.window else 0


def us_of(settings: WriterSettings, now: int) -> int:
    """Return a time in microseconds."""
    return now * settings.retry.unit_us


def tokens_at(settings: WriterSettings, writer: SinkWriter, records: int, now: int) -> int:
    """Return when a bucket that was just filled has tokens for so many records, after ``now``."""
    bucket = writer.bucket
    wait_us = -((bucket.tokens - records * WHOLE) // bucket.rate)
    return now + max(1, -(-wait_us // settings.retry.unit_us))


def register_request(settings: WriterSettings, writer: SinkWriter, records: int, now: int) -> None:
    """Count a request of so many records as in flight (``registerInFlightRequest``)."""
    writer.in_flight += 1
    writer.in_flight_records += records
    take_tokens(writer.bucket, records, us_of(settings, now))


def register_answer(
    settings: WriterSettings, writer: SinkWriter, records: int, failed: int
) -> None:
    """Count its answer, of which so many records failed (``registerCompletedRequest``)."""
    writer.in_flight = max(0, writer.in_flight - 1)
    writer.in_flight_records -= records
    if settings.has_window == 0:
        return
    if failed == 0:
        writer.window = scaled_up(settings, writer.window)
    else:
        writer.window = scaled_down(settings, writer.window)
