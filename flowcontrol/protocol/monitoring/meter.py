"""Flink's rates and shares of time as its metrics show them: late, and in the first minute wrong.

Both views are updated every 5 s. A meter of events divides by its whole span from the start, a
gauge of time by the updates that it has had (``reference/deployment-and-diagnosis.md`` section
5.2, ``flink-network.md`` section 9).
"""

UPDATE_S = 5
"""Seconds between two updates of a view (``View.UPDATE_INTERVAL_SECONDS``)."""


class MeterView:
    """The rate of a counter, over a span that it takes for full from the start.

    Parameters
    ----------
    span_s : int, default 60
        Time over which it averages, s; cut to whole updates, at least one.

    Attributes
    ----------
    rate : float
        Events a second, as of the last update; 0 before the first.

    Raises
    ------
    ValueError
        If the span is not positive.

    Notes
    -----
    ``org.apache.flink.metrics.MeterView``. The counter was 0 before the first update, so in the
    first minute a steady rate shows as rate x t / 60.

    Examples
    --------
    >>> meter = MeterView(span_s=60)
    >>> for seconds in (5, 10, 15):
    ...     meter.update(2000 * seconds)
    >>> meter.rate
    500.0
    """

    def __init__(self, span_s: int = 60) -> None:
        if not span_s > 0:
            raise ValueError(f"a span is above 0 s, not {span_s}")
        self._span_s = max(int(span_s) // UPDATE_S, 1) * UPDATE_S
        self._counts = [0] * (self._span_s // UPDATE_S + 1)
        self._at = 0
        self.rate = 0.0

    def update(self, count: int) -> None:
        """Take up what the counter says; to be called every 5 s.

        Parameters
        ----------
        count : int
            Its value so far, not the difference.
        """
        self._at = (self._at + 1) % len(self._counts)
        self._counts[self._at] = count
        oldest = self._counts[(self._at + 1) % len(self._counts)]
        self.rate = (count - oldest) / self._span_s


class TimerGaugeView:
    """A share of time, averaged over the updates of a window, as busyTimeMsPerSecond is.

    Parameters
    ----------
    span_s : int, default 60
        Length of the window, s; cut to whole updates, at least one.

    Attributes
    ----------
    value : int, ms/s
        Whole milliseconds a second, 0 to 1000; 0 before the first update.

    Raises
    ------
    ValueError
        If the span is not positive.

    Notes
    -----
    ``org.apache.flink.runtime.metrics.TimerGauge``: Java's division of whole numbers, so the
    figure is rounded down.

    Examples
    --------
    >>> gauge = TimerGaugeView()
    >>> gauge.update(2500)
    >>> gauge.update(2500)
    >>> gauge.value
    250
    """

    def __init__(self, span_s: int = 60) -> None:
        if not span_s > 0:
            raise ValueError(f"a span is above 0 s, not {span_s}")
        self._most = max(int(span_s) // UPDATE_S, 1)
        self._times: list[int] = []
        self._before = 0
        self.value = 0

    def update(self, total_ms: int) -> None:
        """Take up the time so far; to be called every 5 s.

        Parameters
        ----------
        total_ms : int
            Whole milliseconds since the start, not the difference.
        """
        self._times = [*self._times, total_ms - self._before][-self._most :]
        self._before = total_ms
        self.value = max(min(sum(self._times) // (UPDATE_S * len(self._times)), 1000), 0)
