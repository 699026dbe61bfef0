"""What a file says of the trace of messages, and when that is refused."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from pydantic import Field

from flowcontrol.errors import Problem
from flowcontrol.scenario import fields as f
from flowcontrol.scenario.mapping import Mapping
from flowcontrol.scenario.parts_table import TRANSPORT_PARTS
from flowcontrol.scenario.problems import known
from flowcontrol.scenario.schedule import MICROSECONDS
from flowcontrol.scenario.system import SystemSpec


class Trace(Mapping):
    """A window of the run of which every message between task managers is written down."""

    quiet = frozenset({"to_s", "edges"})

    from_s: f.Moment = Field(default=Fraction(0), description="where it begins, s; default 0")
    to_s: f.PositiveSeconds | None = f.or_none("where it ends, s; default: the end of the run")
    edges: tuple[str, ...] = Field(
        default=(), description="names of the edges, SENDER->RECEIVER; default: all of them"
    )

    def window_us(self, duration_us: int) -> tuple[int, int]:
        """Return where it begins and ends in a run of some length, microseconds."""
        end = duration_us if self.to_s is None else int(self.to_s * MICROSECONDS)
        return int(self.from_s * MICROSECONDS), end


def trace_problems(
    trace: Trace, duration_s: float, system: SystemSpec, edges: Sequence[tuple[str, bool]]
) -> Iterator[Problem]:
    """Yield what is wrong with a trace.

    ``edges``: name of every edge, and whether it is chained.
    """
    if why := TRANSPORT_PARTS[system.transport].no_messages:
        text = f"transport {system.transport!r} has no messages, as {why}"
        yield Problem("trace", f"{text}: leave it out, or use another system")
    end = Fraction(repr(duration_s))
    if trace.to_s is not None and trace.to_s > end:
        text = f"{float(trace.to_s):g} is behind the end of the run, {duration_s:g}"
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
            yield Problem(place, f"{text}: leave it out, or take chain out of the edge")
        elif name in trace.edges[:index]:
            yield Problem(place, f"{name!r} is stated twice: keep one of them")
