"""What a file says of an operator and not of a stage: chaining, slot sharing, key groups."""

from typing import Literal

from pydantic import Field

from flowcontrol.scenario import fields as f
from flowcontrol.scenario.mapping import Mapping

OperatorKind = Literal["source", "legacy-source", "operator", "sink", "classic-sink", "yielding"]
ChainingStrategy = Literal["always", "head", "head-with-sources", "never"]


class OperatorKeys(Mapping):
    """One operator of the program, as Flink's graphs see it."""

    quiet = frozenset({"uid", "kind", "max_parallelism", "chaining", "slot_group"})

    name: f.Text = Field(description="its name, unlike every other operator's")
    parallelism: f.Parallelism = Field(
        default=1, description="number of subtasks; default: parallelism.default"
    )
    max_parallelism: f.Parallelism | None = f.or_none(
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
