"""Every transport and throttle with its parameters: default, unit, meaning, bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Parameter:
    """One number of a transport or a throttle.

    Attributes
    ----------
    default : float
        Value unless a preset or the scenario states another.
    unit : str
        Of the value; empty for shares and factors.
    meaning : str
        What it is, in general terms; a preset's ``words`` have the names in its system.
    least, most : float
        Bounds, both allowed.
    """

    default: float
    unit: str
    meaning: str
    least: float = 0.0
    most: float = float(1 << 53)

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers make sense."""
        return self.unit not in {"", "ms", "records/s"}


@dataclass(frozen=True)
class Part:
    """A transport or a throttle.

    Attributes
    ----------
    meaning : str
        What it does.
    parameters : dict of str to Parameter
        By name, as a scenario writes it.
    counts_records : bool
        Of a transport: its channels have queues of records, rather than buffers of bytes.
    has_grants : bool
        Of a transport: a sender may count on what its receiver grants, so that what is held between
        the two has a bound.
    """

    meaning: str
    parameters: dict[str, Parameter]
    counts_records: bool = False
    has_grants: bool = True


_SLOTS = Parameter(1024, "records", "slots of a receiver's queue", 1)
_LATER = Parameter(0, "ms", "until it reaches the sources, added to the network")


def _part(meaning: str, **parameters: Parameter) -> Part:
    return Part(meaning, parameters)


def _records(meaning: str, **parameters: Parameter) -> Part:
    return Part(meaning, parameters, counts_records=True)


def _free(meaning: str, **parameters: Parameter) -> Part:
    return Part(meaning, parameters, counts_records=True, has_grants=False)


TRANSPORT_PARTS: Final[dict[str, Part]] = {
    "credit": _part("Flink's credits; its own options are the parameters"),
    "tcp": _part(
        "Flink before 1.5: an edge's channels between two task managers share a connection, "
        "which is not read while a gate has no buffer",
        high_water_segments=Parameter(
            2, "segments", "a connection with more pending bytes is not written to", 1, 1 << 20
        ),
        low_water_segments=Parameter(
            1, "segments", "with at most this many pending bytes it is written to again", 0, 1 << 20
        ),
        kernel_bytes=Parameter(
            4 << 20, "bytes", "what the two sockets of a connection hold together"
        ),
    ),
    "local": _part("a pool that producer and consumer share, as within one task manager"),
    "chained": _part("a function call: the producer does the consumer's work"),
    "blocking_queue": _records(
        "a queue per channel; a producer waits while it is full", slots=_SLOTS
    ),
    "half_return_credit": _records(
        "permits that come back together, once a share of the queue is free",
        slots=Parameter(1000, "records", "permits of a channel at the beginning", 1),
        share=Parameter(0.5, "", "of the slots: permits that are returned", 0.0, 1.0),
    ),
    "batched_credit": _records(
        "permits that come back in lots; barriers have a lane of their own",
        slots=Parameter(2048, "records", "initial permits", 1),
        lot=Parameter(256, "records", "permits that come back at a time", 1),
    ),
    "cumulative_credit": _records(
        "a limit of deliveries that only grows; it is raised when little is left",
        credit=Parameter(128, "records", "most that a link has", 1),
        mark=Parameter(64, "records", "credit from which it is topped up"),
    ),
    "rate_window": _records(
        "a window of some periods of the recent processing rate",
        unit=Parameter(1 << 16, "bytes", "what windows are counted in", 1),
        initial_units=Parameter(800, "units", "window at the beginning", 1),
        multiplier=Parameter(3, "periods", "that a window is worth", 1),
        period_ms=Parameter(100, "ms", "between two packets of flow control", 1),
    ),
    "bdp_window": _records(
        "a window that doubles while a round trip fills it",
        initial=Parameter(65_535, "bytes", "window at the beginning", 1),
        most=Parameter(16 << 20, "bytes", "window from which it does not grow", 1),
    ),
    "hop_hysteresis": _free(
        "a receiver's queue stops and resumes its senders",
        slots=Parameter(256, "records", "of the receiver's queue", 1),
        high=Parameter(0.8, "", "share above which senders are stopped", 0.0, 1.0),
        low=Parameter(0.2, "", "share below which they resume", 1e-6, 1.0),
        check_ms=Parameter(
            0,
            "ms",
            "interval of the check that resumes the senders if the overflow is empty; 0: marks do",
        ),
        cache_bytes=Parameter(0, "bytes", "what a stopped sender takes on before it waits"),
    ),
    "unbounded": _free(
        "all records are kept in memory",
        heap_bytes=Parameter(float(1 << 30), "bytes", "heap of a task manager", 1),
    ),
}

THROTTLE_PARTS: Final[dict[str, Part]] = {
    "none": _part("sources emit as they can"),
    "global_hysteresis": _part(
        "any queue above its high mark stops all sources",
        slots=_SLOTS,
        high=Parameter(0.9, "", "share at which a queue claims pressure", 0.0, 1.0),
        low=Parameter(0.4, "", "share at which it takes that back", 0.0, 1.0),
        high_bytes=Parameter(0, "bytes", "at which it does so instead of slots; 0: not used"),
        low_bytes=Parameter(0, "bytes", "below which it takes that back"),
        consecutive=Parameter(1, "times", "in a row that the high mark must be met", 1),
        check_ms=Parameter(100, "ms", "interval of the check of the queues; 0: every round"),
        update_ms=Parameter(15_000, "ms", "after which a claim is made again", 1),
        timeout_ms=Parameter(30_000, "ms", "age at which a claim ends; 0: none"),
        delay_on_ms=_LATER,
        delay_off_ms=_LATER,
    ),
    "stepwise_sleep": _part(
        "bolts vote, and the sources sleep longer after every record",
        slots=_SLOTS,
        high=Parameter(0.8, "", "share above which a sample votes to start", 0.0, 1.0),
        low=Parameter(0.05, "", "share at which it votes to stop", 0.0, 1.0),
        interval_ms=Parameter(500, "ms", "between two samples", 1),
        samples=Parameter(4, "samples", "that make an event", 1),
        sample_rate=Parameter(1.0, "", "share of samples that must agree", 0.0, 1.0),
        trigger_ratio=Parameter(0.1, "", "share of a bolt's tasks under pressure", 0.0, 1.0),
    ),
    "pid_rate": _part(
        "the rate follows the speed of the batches that are done",
        interval_ms=Parameter(1000, "ms", "batch interval", 1),
        proportional=Parameter(1.0, "", "gain"),
        integral=Parameter(0.2, "", "gain"),
        derivative=Parameter(0.0, "", "gain"),
        min_rate=Parameter(100, "records/s", "least rate of all sources together", 1),
        max_rate=Parameter(0, "records/s", "most rate of a source subtask; 0: none"),
        initial_rate=Parameter(0, "records/s", "before the first batch is done; 0: none"),
    ),
    "static_admission": _part(
        "batches of limited size, one at a time",
        interval_ms=Parameter(0, "ms", "between two batches; 0: as soon as one is done"),
        max_records=Parameter(0, "records", "most of a batch; 0: all waiting records"),
        min_records=Parameter(0, "records", "least of a batch; 0: any"),
        max_delay_ms=Parameter(900_000, "ms", "after which a batch may have fewer"),
    ),
    "aimd_rate": _part(
        "a rate that grows by steps and falls by a factor",
        min_rate=Parameter(500, "records/s", "of all sources together: where it begins", 1),
        max_rate=Parameter(3500, "records/s", "where it ends", 1),
        add=Parameter(100, "records/s", "for a good answer"),
        factor=Parameter(0.5, "", "for a late answer", 0.0, 1.0),
        interval_ms=Parameter(1000, "ms", "between two answers that count", 1),
        late_ms=Parameter(20_000, "ms", "latency that counts as late", 1),
        cooldown_ms=Parameter(20_000, "ms", "in which it does not fall again"),
        window_ms=Parameter(10_000, "ms", "over which the rate used is measured", 1),
        use_share=Parameter(0.8, "", "of the rate that must be used for it to grow", 0.0, 1.0),
    ),
    "frontier_lag": _part(
        "a source waits while too many of its batches are unfinished somewhere",
        interval_ms=Parameter(100, "ms", "what makes a batch", 1),
        lag=Parameter(2, "batches", "that may be under way", 1),
    ),
}

NOT_ABOVE: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "batched_credit": (("lot", "slots"),),  # or no permit would ever come back
    "bdp_window": (("initial", "most"),),
    "cumulative_credit": (("mark", "credit"),),
    "hop_hysteresis": (("low", "high"),),
    "global_hysteresis": (("low", "high"), ("low_bytes", "high_bytes")),
    "stepwise_sleep": (("low", "high"),),
    "aimd_rate": (("min_rate", "max_rate"),),
}
"""Parameters of a part of which the first must not be above the second."""
