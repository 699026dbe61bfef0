"""What a task of a job with event time holds."""

from dataclasses import dataclass, field

from flowcontrol.protocol.event_time.states import ActivityClock, AlignedSource, Generator, Valve


@dataclass(slots=True)
class TaskTime:
    """Event time of a task: how a source stamps its records, what makes or takes watermarks.

    Times of the run are microseconds, event times and watermarks milliseconds.
    """

    generator: Generator = field(default_factory=Generator)
    """Of a source: what makes its watermarks."""
    clock: ActivityClock = field(default_factory=ActivityClock)
    """The clock of its idleness; ``stood`` as of the last probe."""
    valve: Valve = field(default_factory=Valve)
    """Of a task with inputs: its valve, over all its channels."""
    has_generator: int = 0
    """1: a source with watermarks; one without gives MAX_TIME at its end and no other; constant."""
    interval: int = 0
    """Between two probes, microseconds; 0: it is never probed; constant."""
    next_probe: int = -1
    """When the next one falls due, microseconds of the run; -1: never."""
    is_sparks: int = 0
    """1: the time is Spark's, and no watermark travels in channels; constant."""
    aligned: AlignedSource = field(default_factory=AlignedSource)
    """Of a source whose group is aligned: what its group allows it, and whether it is paused."""
    paused_us: int = 0
    """How long it has stood because it was paused, microseconds: part of its idle time."""
    has_times: int = 0
    """1: a source whose rows bring their stamps; constant."""
    has_ids: int = 0
    """1: a source whose rows bring their ids, at times that are made; constant."""
    next_marker: int = -1
    """When a source gives out its next latency marker, microseconds of the run; -1: never."""
    marker_interval: int = 0
    """Between two of them, microseconds; constant."""
    marker_stream: int = 0
    """Of the random numbers that choose their channels; constant."""
    markers: int = 0
    """How many it has written, or has pending."""
    has_ended: int = 0
    """1: a source has given out MAX_TIME: no record of it comes any more."""
    marks: int = 0
    """Watermarks and statuses that it has put into each of its channels."""
    stream: int = 0
    """Of its random numbers; constant."""
    offset: int = 0
    """Added to the event time of each record, ms; constant."""
    spread: int = 0
    """How far records lie behind, ms: at most, or in the mean; constant."""
    is_exponential: int = 0
    """1: in the mean; constant."""
