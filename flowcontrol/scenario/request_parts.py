"""Keys within requests: what a destination takes, and what a writer does with what fails."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, Discriminator, PlainSerializer, Tag

from flowcontrol.scenario import fields as f
from flowcontrol.scenario.connectors import Growth
from flowcontrol.scenario.schedule import TAG_MARK

MOST_RECORDS: Final = 1_000_000
"""Most records that a subtask of a sink holds, in its buffer and in flight."""
MOST_LATENCY_MS: Final = 10**7

Distribution = Literal["constant", "exponential", "lognormal"]

Records = Annotated[int, f.Number("a whole number of records", 1, MOST_RECORDS, step=f.ONE)]
BatchRecords = Annotated[int, f.Number("a whole number of records", 0, MOST_RECORDS, step=f.ONE)]
BatchBytes = Annotated[int, f.Size("whole bytes", 0, f.MAX_BYTES, step=f.ONE)]
Attempts = Annotated[int, f.Number("a whole number of attempts", 0, 2**31 - 1, step=f.ONE)]
Partitions = Annotated[int, f.Number("a whole number of partitions", 1, 1000, step=f.ONE)]
Multiplier = Annotated[Fraction, f.Number("a factor", 1, 100, step=Fraction(1, 1000))]
Rows = Annotated[int, f.Number("a whole number of rows", 1, 10**9, step=f.ONE)]
InFlight = Annotated[int, f.Number("a whole number of requests", 1, 10_000, step=f.ONE)]
LatencyMilliseconds = Annotated[
    Fraction, f.Number("a time in ms", 0, MOST_LATENCY_MS, step=Fraction(1, 1000))
]
AddedMilliseconds = Annotated[
    Fraction, f.Number("a time in ms", 0, 10**5, step=Fraction(1, 1_000_000), grain="nanoseconds")
]
Factor = Annotated[
    Fraction,
    f.Number(
        "a share", 0, 1, is_low_allowed=False, step=Fraction(1, 1_000_000), grain="millionths"
    ),
]
LimitedRate = Annotated[Fraction, f.Number("a rate a second", 0, 10**9, is_low_allowed=False)]


class LatencyPhase(f.Mapping):
    """From a moment on, what a request takes."""

    at_s: f.Moment = f.key("LatencyPhase.at_s", ...)
    ms: LatencyMilliseconds = f.key("LatencyPhase.ms", ...)


def _in_order(phases: tuple[LatencyPhase, ...]) -> tuple[LatencyPhase, ...]:
    if not phases or phases[0].at_s != 0:
        raise f.refuse("the first phase does not start at_s: 0: write one that does")
    for index in range(1, len(phases)):
        if phases[index].at_s <= phases[index - 1].at_s:
            text = "is not after the phase before: write the phases in the order of time"
            raise f.refuse(f"{float(phases[index].at_s):g} {text}", index, "at_s")
    return phases


def _one_phase(ms: Fraction) -> tuple[LatencyPhase, ...]:
    return (LatencyPhase(at_s=Fraction(0), ms=ms),)


def _kind(value: object) -> str:
    return f"{TAG_MARK}{'phases' if isinstance(value, list | tuple) else 'number'}"


def _written(phases: Sequence[LatencyPhase]) -> Any:
    if len(phases) == 1:
        return f.write_number(phases[0].ms)
    return [{"at_s": f.write_number(p.at_s), "ms": f.write_number(p.ms)} for p in phases]


if TYPE_CHECKING:
    Latency = tuple[LatencyPhase, ...]
else:
    Latency = Annotated[
        Annotated[LatencyMilliseconds, AfterValidator(_one_phase), Tag(f"{TAG_MARK}number")]
        | Annotated[tuple[LatencyPhase, ...], AfterValidator(_in_order), Tag(f"{TAG_MARK}phases")],
        Discriminator(_kind),
        PlainSerializer(_written),
    ]


class RateLimiting(f.Mapping):
    """How a writer limits the records in flight by what fails, or the records that it sends."""

    quiet = frozenset({"initial", "increase", "decrease", "threshold", "records_per_s", "burst_s"})

    initial: Records | None = f.key("RateLimiting.initial")
    increase: Records = f.key("RateLimiting.increase", 10)
    decrease: Factor | None = f.key("RateLimiting.decrease")
    threshold: Records | None = f.key("RateLimiting.threshold")
    records_per_s: LimitedRate | None = f.key("RateLimiting.records_per_s")
    burst_s: f.PositiveSeconds = f.key("RateLimiting.burst_s", Fraction(1))


def _limiting_kind(value: object) -> str:
    return f"{TAG_MARK}{'word' if isinstance(value, str) else 'keys'}"


RateLimitings = Annotated[
    Annotated[RateLimiting, Tag(f"{TAG_MARK}keys")]
    | Annotated[Literal["none"], Tag(f"{TAG_MARK}word")],
    Discriminator(_limiting_kind),
]


class Limit(f.Mapping):
    """What a destination takes at the most; what is above it fails."""

    quiet = frozenset({"records_per_s", "requests_per_s", "burst_s", "shared"})

    records_per_s: LimitedRate | None = f.key("Limit.records_per_s")
    requests_per_s: LimitedRate | None = f.key("Limit.requests_per_s")
    burst_s: f.PositiveSeconds = f.key("Limit.burst_s", Fraction(1))
    shared: bool = f.key("Limit.shared", True, strict=True)


class Errors(f.Mapping):
    """Shares of what fails without a limit, drawn from the seed."""

    quiet = frozenset({"request", "record", "empty"})

    request: f.Share = f.key("Errors.request", Fraction(0))
    record: f.Share = f.key("Errors.record", Fraction(0))
    empty: f.Share = f.key("Errors.empty", Fraction(0))


class Retry(f.Mapping):
    """How often and when a request that failed is sent again, or a record is called again."""

    quiet = frozenset(
        {"attempts", "delay_ms", "growth", "multiplier", "max_delay_ms", "whole", "when"}
    )

    attempts: Attempts | None = f.key("Retry.attempts")
    delay_ms: LatencyMilliseconds | None = f.key("Retry.delay_ms")
    growth: Growth | None = f.key("Retry.growth")
    multiplier: Multiplier | None = f.key("Retry.multiplier")
    max_delay_ms: LatencyMilliseconds | None = f.key("Retry.max_delay_ms")
    whole: bool | None = f.key("Retry.whole", strict=True)
    when: tuple[Literal["error", "empty"], ...] = f.key("Retry.when", ("error",))


class Cache(f.Mapping):
    """Answers that an operator keeps (``lookup.cache``)."""

    quiet = frozenset({"hit", "rows"})

    hit: f.Share | None = f.key("Cache.hit")
    rows: Rows | None = f.key("Cache.rows")

    @property
    def is_ambiguous(self) -> bool:
        """Whether it has both a share and rows from which one follows, or neither."""
        return (self.hit is None) == (self.rows is None)
