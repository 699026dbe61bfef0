"""The keys of a stage (work, rows, stalls, state, guarantee) and of an operator."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Literal

from pydantic import ValidationInfo, field_validator

from flowcontrol.scenario import fields as f
from flowcontrol.scenario.event_time import EventTime, Watermark
from flowcontrol.scenario.fault_tolerance import Commit, Guarantee, State
from flowcontrol.scenario.refusals import faults
from flowcontrol.scenario.requests import Requests
from flowcontrol.scenario.schedule import MICROSECONDS, Rate, Rates, Schedule, Span, merged
from flowcontrol.scenario.windows import Window


class Input(f.Mapping):
    """Real rows that a source replays, in their order, each once; then the source is idle."""

    format: Literal["parquet", "csv", "delta"] = f.key("Input.format", ...)
    path: f.Text = f.key("Input.path", ...)
    """Absolute in a scenario that was read."""
    key: f.Text | None = f.key("Input.key")


class Output(f.Mapping):
    """Where a sink writes the rows it took; without one it counts and drops them."""

    format: Literal["delta"] = f.key("Output.format", ...)
    path: f.WorkedOut[f.Text] = f.key("Output.path")


class Stall(f.Mapping):
    """A time during which subtasks are stalled: a garbage collection, a hung sink."""

    at_s: f.Moment = f.key("Stall.at_s", ...)
    for_s: f.PositiveSeconds = f.key("Stall.for_s", ...)
    subtasks: f.WorkedOut[tuple[f.Index, ...]] = f.key("Stall.subtasks")

    @property
    def span(self) -> Span:
        """First microsecond, and the one after the last."""
        return int(self.at_s * MICROSECONDS), int((self.at_s + self.for_s) * MICROSECONDS)


class Stage(f.Mapping):
    """One operator of the job."""

    quiet = frozenset(
        {
            *("emit_rate", "arrival_rate", "latency_from", "service_rate", "input", "output"),
            *("stalls", "state", "guarantee", "transaction_timeout_s", "replayable"),
            *("event_time", "watermark", "window", "cpu", "external", "requests"),
            "commit",
        }
    )

    name: f.StageName = f.key("Stage.name", ...)
    parallelism: f.Parallelism = f.key("Stage.parallelism", 1)
    emit_rate: Rates | None = f.key("Stage.emit_rate")
    arrival_rate: Rates | None = f.key("Stage.arrival_rate")
    latency_from: Literal["emission", "arrival"] = f.key("Stage.latency_from", "emission")
    service_rate: Rates | None = f.key("Stage.service_rate")
    total_rate: Rate | None = f.key("Stage.total_rate")
    total_arrival_rate: Rate | None = f.key("Stage.total_arrival_rate")
    record_bytes: f.WorkedOut[f.Bytes] = f.key("Stage.record_bytes")
    selectivity_exact: f.Selectivity = f.key("Stage.selectivity", Fraction(1), alias="selectivity")
    placement: f.WorkedOut[tuple[f.Index, ...]] = f.key("Stage.placement")
    input: Input | None = f.key("Stage.input")
    output: Output | None = f.key("Stage.output")
    stalls: tuple[Stall, ...] = f.key("Stage.stalls", ())
    service_time: Literal["constant", "exponential", "lognormal"] = f.key(
        "Stage.service_time", "constant"
    )
    service_time_cv: f.WorkedOut[f.Variation] = f.key("Stage.service_time_cv")
    cpu: f.Share | None = f.key("Stage.cpu")
    external: bool = f.key("Stage.external", False, strict=True)
    state: State | None = f.key("Stage.state")
    guarantee: Guarantee = f.key("Stage.guarantee", "at-least-once")
    transaction_timeout_s: f.PositiveSeconds | None = f.key("Stage.transaction_timeout_s")
    commit: Commit | None = f.key("Stage.commit")
    replayable: bool = f.key("Stage.replayable", True, strict=True)

    event_time: EventTime | None = f.key("Stage.event_time")
    watermark: Watermark | None = f.key("Stage.watermark")
    window: Window | None = f.key("Stage.window")
    requests: Requests | None = f.key("Stage.requests")

    @field_validator("event_time")
    @classmethod
    def _whose_times(cls, times: EventTime | None, info: ValidationInfo) -> EventTime | None:
        return None if times is None else times.spread(info.data.get("parallelism", 1))

    @field_validator("stalls")
    @classmethod
    def _whose_stalls(cls, stalls: tuple[Stall, ...], info: ValidationInfo) -> tuple[Stall, ...]:
        every = {"subtasks": tuple(range(info.data.get("parallelism", 1)))}
        return tuple(
            stall if f.is_stated(stall, "subtasks") else stall.model_copy(update=every)
            for stall in stalls
        )

    @property
    def transaction_timeout_us(self) -> int | None:
        """The same in microseconds; None: never."""
        limit = self.transaction_timeout_s
        return None if limit is None else int(limit * MICROSECONDS)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between two keys of the stage: a key and the refusal."""
        yield from faults("stages", self)
        count = self.parallelism
        for key in ("emit_rate", "arrival_rate", "service_rate"):
            rates = getattr(self, key)
            if rates == ():
                yield key, "[] is empty: write a rate, or one for each subtask"
            elif rates is not None and len(rates) != count:
                text = (
                    f"{len(rates)} rates for {count} subtasks: write one for each, or one for all"
                )
                yield key, text
        for k, stall in enumerate(self.stalls):
            for subtask in stall.subtasks:
                if subtask >= count:
                    text = f"{subtask} is not a subtask: there are {count}, from 0"
                    yield f"stalls[{k}].subtasks", text
        if self.event_time is not None:
            for key, text in self.event_time.contradictions(count):
                yield f"event_time.{key}", text
        for name, part in (
            ("watermark", self.watermark),
            ("window", self.window),
            ("requests", self.requests),
            ("commit", self.commit),
        ):
            for key, text in () if part is None else part.contradictions():
                yield f"{name}.{key}", text

    def is_written(self, key: str) -> bool:
        """Tell whether a key is written down: a variation only where times vary so."""
        if key == "service_time_cv":
            return self.service_time == "lognormal"
        if key in {"emit_rate", "service_rate", "total_rate"} and self.is_total_divided:
            return key == "total_rate"
        if key in {"arrival_rate", "total_arrival_rate"} and self.is_arrival_divided:
            return key == "total_arrival_rate"
        is_total = key in {"total_rate", "total_arrival_rate"}
        return not is_total and super().is_written(key)

    @property
    def is_total_divided(self) -> bool:
        """Whether the rates of the subtasks are even parts of ``total_rate``."""
        rates = self.service_rate if self.emit_rate is None else self.emit_rate
        return _is_divided(self.total_rate, rates, self.parallelism)

    @property
    def is_arrival_divided(self) -> bool:
        """Whether the logs of the subtasks get even parts of ``total_arrival_rate``."""
        return _is_divided(self.total_arrival_rate, self.arrival_rate, self.parallelism)

    @property
    def selectivity(self) -> float:
        """Records out, on each output edge, per record in, as the nearest double."""
        return float(self.selectivity_exact)

    @property
    def is_source(self) -> bool:
        """True for a stage that emits by itself."""
        return self.emit_rate is not None

    @property
    def processor_share(self) -> Fraction:
        """Part of a record's time that needs a processor: 1 unless stated, of a source 0."""
        if self.cpu is not None:
            return self.cpu
        return Fraction(0 if self.is_source else 1)

    @property
    def reads_log(self) -> bool:
        """True for a source that reads a log, which keeps what the source has not read."""
        return self.arrival_rate is not None

    def stalled(self, subtask: int) -> tuple[Span, ...]:
        """Return the stalls of a subtask.

        Returns the first microsecond of each and the one after its last, in the order of time;
        stalls that overlap or touch are one. Raises IndexError if there is no such subtask.
        """
        if not 0 <= subtask < self.parallelism:
            count = self.parallelism
            raise IndexError(
                f"{subtask} is not a subtask of {self.name!r}: there are {count}, from 0"
            )
        return merged(stall.span for stall in self.stalls if subtask in stall.subtasks)

    def rates(self, subtask: int) -> Schedule | None:
        """Return the rate at which a subtask emits or serves, its stalls cut out.

        The rate is 0 while the subtask is stalled, and lost work is not made up. None: the stage
        has no rate, but :meth:`stalled` still applies. Raises IndexError if there is no such
        subtask.
        """
        spans = self.stalled(subtask)
        schedules = self.service_rate if self.emit_rate is None else self.emit_rate
        return None if schedules is None else schedules[subtask].without(spans)


def _is_divided(
    total: Schedule | None, rates: tuple[Schedule, ...] | None, parallelism: int
) -> bool:
    return total is not None and rates == total.divided(parallelism)


OperatorKind = Literal["source", "legacy-source", "operator", "sink", "classic-sink", "yielding"]
ChainingStrategy = Literal["always", "head", "head-with-sources", "never"]


class OperatorKeys(f.Mapping):
    """One operator of the program, as Flink's graphs see it."""

    quiet = frozenset({"uid", "kind", "max_parallelism", "chaining", "slot_group"})

    name: f.Text = f.key("Operator.name", ...)
    parallelism: f.Parallelism = f.key("Operator.parallelism", 1)
    max_parallelism: f.Count | None = f.key("Operator.max_parallelism")
    uid: f.Text | None = f.key("Operator.uid")
    kind: OperatorKind | None = f.key("Operator.kind")
    chaining: ChainingStrategy | None = f.key("Operator.chaining")
    slot_group: f.Text | None = f.key("Operator.slot_group")


class Operator(Stage, OperatorKeys):
    """One operator of the program: what a stage has, but for its place, and how it is chained."""

    quiet = Stage.quiet | OperatorKeys.quiet

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between two keys of the operator: a key and the refusal."""
        yield from super().contradictions()
        if f.is_stated(self, "placement"):
            text = "operators are placed in slots: remove it, or write the job as stages"
            yield "placement", f"{list(self.placement)}: {text}"
        if self.max_parallelism is not None and self.max_parallelism < self.parallelism:
            text = f"{self.max_parallelism} is less than the parallelism, {self.parallelism}"
            yield "max_parallelism", f"{text}: raise it, or lower the parallelism"

    @property
    def keys(self) -> OperatorKeys:
        """What Flink's graphs depend on."""
        return OperatorKeys(**{name: getattr(self, name) for name in OperatorKeys.model_fields})

    def as_stage(self) -> Stage:
        """Return what a stage has of it."""
        own = {name: getattr(self, name) for name in Stage.model_fields}
        return Stage.model_construct(self.model_fields_set & set(own), **own)
