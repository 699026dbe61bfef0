"""How many records of a sink may be in flight: congestion control by what fails.

Sources: ``CongestionControlRateLimitingStrategy``, ``AIMDScalingStrategy`` (FLIP-242).
"""

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


def should_block(settings: WriterSettings, writer: SinkWriter, records: int) -> int:
    """Tell whether a request of so many records has to wait (``shouldBlock``): 1 if so."""
    if writer.in_flight >= settings.in_flight:
        return 1
    if settings.has_window == 0:
        return 0
    return 1 if writer.in_flight_records + records > writer.window else 0


def register_request(writer: SinkWriter, records: int) -> None:
    """Count a request of so many records as in flight (``registerInFlightRequest``)."""
    writer.in_flight += 1
    writer.in_flight_records += records


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
