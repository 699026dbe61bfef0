"""What a file says of an operator and not of a stage: chaining, slot sharing, key groups."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from flowcontrol.scenario import fields as f
from flowcontrol.scenario.mapping import Mapping
from flowcontrol.scenario.stage_models import Stage

OperatorKind = Literal["source", "legacy-source", "operator", "sink", "classic-sink", "yielding"]
ChainingStrategy = Literal["always", "head", "head-with-sources", "never"]


class OperatorKeys(Mapping):
    """One operator of the program, as Flink's graphs see it."""

    quiet = frozenset({"uid", "kind", "max_parallelism", "chaining", "slot_group"})

    name: f.Text = Field(description="its name, unlike every other operator's")
    parallelism: f.Parallelism = Field(
        default=1, description="number of subtasks; default: parallelism.default"
    )
    max_parallelism: f.Count | None = f.or_none(
        "number of its key groups, at least its parallelism (setMaxParallelism); default: "
        "pipeline.max-parallelism, else Flink's default for the parallelism"
    )
    uid: f.Text | None = f.or_none("identity that its state is restored by (uid); default: none")
    kind: OperatorKind | None = f.or_none(
        "source, legacy-source, operator, sink, classic-sink or yielding (async wait, file "
        "reader); default: source without an edge to it, else operator"
    )
    chaining: ChainingStrategy | None = f.or_none(
        "chaining strategy: always, head (startNewChain), head-with-sources or never "
        "(disableChaining); default: that of its kind"
    )
    slot_group: f.Text | None = f.or_none(
        "slot sharing group; default: that of its inputs if they agree, else default"
    )


class Operator(Stage, OperatorKeys):
    """One operator of the program: what a stage has, but for its place, and how it is chained."""

    quiet = Stage.quiet | OperatorKeys.quiet

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between two keys of the operator: a key and the refusal."""
        yield from super().contradictions()
        if f.is_stated(self, "placement"):
            text = "operators are placed by slots: take it out, or spell the job out as stages"
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
