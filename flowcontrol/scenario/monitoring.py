"""The keys of monitoring and of the trace of messages, and their refusals."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Annotated, Final

from flowcontrol.errors import Problem
from flowcontrol.scenario import fields as f
from flowcontrol.scenario.problems import known
from flowcontrol.scenario.schedule import MICROSECONDS

MAX_SAMPLES: Final = 100_000
"""Most samples of a set: a thousand times Flink's, whose error is a thirtieth of Flink's."""

Samples = Annotated[int, f.Number("a whole number of samples", 1, MAX_SAMPLES, step=f.ONE)]
WholeMilliseconds = Annotated[int, f.Number("whole milliseconds", 1, 3_600_000, step=f.ONE)]


class SamplingKeys(f.Mapping):
    """Sets of samples of every task, as Flink up to 1.12 takes them while its page is open."""

    samples: Samples = f.key("SamplingKeys.samples", 100)
    delay_ms: WholeMilliseconds = f.key("SamplingKeys.delay_ms", 50)
    refresh_s: f.EventSeconds = f.key("SamplingKeys.refresh_s", Fraction(60))

    @property
    def length_ms(self) -> int:
        """From the first sample of a set to the last one."""
        return (self.samples - 1) * self.delay_ms

    @property
    def refresh_ms(self) -> int:
        """From the end of a set to the start of the next one."""
        return int(self.refresh_s * 1000)


class Monitoring(f.Mapping):
    """How a run is watched, beside the exact timers of the table ``stages``."""

    quiet = frozenset({"sampling", "metrics"})

    sampling: SamplingKeys | None = f.key("Monitoring.sampling")
    metrics: bool | None = f.key("Monitoring.metrics", strict=True)


def monitoring_problems(monitoring: Monitoring, duration_s: float) -> Iterator[Problem]:
    """Yield what is wrong with how a run is to be watched."""
    sampling, end_ms = monitoring.sampling, 1000 * Fraction(repr(duration_s))
    if sampling is not None and sampling.length_ms >= end_ms:
        text = (
            f"{sampling.samples} samples, {sampling.delay_ms} ms apart, take "
            f"{sampling.length_ms / 1000:g} s, and the run ends at {duration_s:g} s, before the "
            "first set is complete: take fewer samples, or raise duration_s"
        )
        yield Problem("monitoring.sampling", text)


class Trace(f.Mapping):
    """A window of the run of which every message between task managers is written down."""

    quiet = frozenset({"to_s", "edges"})

    from_s: f.Moment = f.key("Trace.from_s", Fraction(0))
    to_s: f.PositiveSeconds | None = f.key("Trace.to_s")
    edges: tuple[str, ...] = f.key("Trace.edges", ())

    def window_us(self, duration_us: int) -> tuple[int, int]:
        """Return where it begins and ends in a run of some length, microseconds."""
        end = duration_us if self.to_s is None else int(self.to_s * MICROSECONDS)
        return int(self.from_s * MICROSECONDS), end


def trace_problems(
    trace: Trace, duration_s: float, edges: Sequence[tuple[str, bool]]
) -> Iterator[Problem]:
    """Yield what is wrong with a trace.

    ``edges``: name of every edge, and whether it is chained.
    """
    end = Fraction(repr(duration_s))
    if trace.to_s is not None and trace.to_s > end:
        text = f"{float(trace.to_s):g} is after the end of the run, {duration_s:g}"
        yield Problem("trace.to_s", f"{text}: choose an earlier time, or raise duration_s")
    last = end if trace.to_s is None else trace.to_s
    if trace.from_s >= last:
        text = f"{float(trace.from_s):g} is not before its end, {float(last):g}"
        yield Problem("trace.from_s", f"{text}: choose an earlier time")
    chained = dict(edges)
    for index, name in enumerate(trace.edges):
        place = f"trace.edges[{index}]"
        if name not in chained:
            yield Problem(place, known(name, list(chained), "edge"))
        elif chained[name]:
            text = f"{name!r} is chained: within a task there are no messages"
            yield Problem(place, f"{text}: leave it out, or remove chain of the edge")
        elif name in trace.edges[:index]:
            yield Problem(place, f"{name!r} is stated twice: keep one of them")
