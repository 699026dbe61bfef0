"""What a file says of a controller that changes parallelism during the run."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import Field, model_serializer, model_validator

from flowcontrol.errors import Problem
from flowcontrol.scenario import fields as f
from flowcontrol.scenario.autoscaler import PREFIX, AutoscalerSettings, Version, read_autoscaler
from flowcontrol.scenario.mapping import Mapping as _Model
from flowcontrol.scenario.problems import key_path, known
from flowcontrol.scenario.schedule import MICROSECONDS

Policy = Literal["ds2", "flink-autoscaler"]
"""Whose rules choose the parallelism."""

POLICIES: Final[tuple[Policy, ...]] = ("ds2", "flink-autoscaler")

DS2_KEYS: Final = (
    "policy_interval",
    "warm_up_time",
    "activation_time",
    "scaling_factor",
    "target_rate_ratio",
    "redeploy_s",
)
"""Keys that only DS2 has."""

FLINK_KEYS: Final = ("version", "interval_s", "restart_s", "partitions")
"""Keys that only the autoscaler has, beside its own ``job.autoscaler.*``."""

MOST_PARALLELISM: Final = 128
"""Most subtasks of a stage: Flink's default number of key groups."""

Ratio = Annotated[Fraction, f.Number("a ratio", 1, 10**9)]
Extra = Annotated[Fraction, f.Number("a share", 0, 1000)]


class Scaling(_Model):
    """A controller that changes the parallelism of stages during the run."""

    quiet = frozenset({*DS2_KEYS, *FLINK_KEYS, "keys"})

    policy: Policy = Field(description="whose rules choose the parallelism: ds2, flink-autoscaler")
    policy_interval: f.PositiveSeconds = Field(
        default=Fraction(10), description="ds2: time between two decisions, s; default 10"
    )
    warm_up_time: f.Moment = Field(
        default=Fraction(10),
        description="ds2: time after a start in which it does not look, s; default 10",
    )
    activation_time: f.Count = Field(
        default=1,
        description="ds2: decisions of which it takes the largest before it acts; default 1",
    )
    scaling_factor: Extra = Field(
        default=Fraction(0), description="ds2: share of instances to add beyond the need; default 0"
    )
    target_rate_ratio: Ratio | None = f.or_none(
        "ds2: how many times as fast as they are the sources should be until all stages grow by as "
        "much although none needs more; default: never"
    )
    redeploy_s: f.Moment = Field(
        default=Fraction(40),
        description="ds2: time that the job stands between its savepoint and the start of the new "
        "one, s; default 40 (30 to 50 in the paper)",
    )
    version: Version = Field(
        default="head",
        description="flink-autoscaler: release of the Flink Kubernetes operator, head or 1.15; "
        "default head",
    )
    interval_s: f.PositiveSeconds = Field(
        default=Fraction(60),
        description="flink-autoscaler: time between two looks, s (the operator's "
        "kubernetes.operator.reconcile.interval); default 60",
    )
    restart_s: f.Moment = Field(
        default=Fraction(30),
        description="flink-autoscaler: time that a restart really takes, s; what it expects is "
        "job.autoscaler.restart.time; default 30",
    )
    partitions: dict[str, f.Count] = Field(
        default={},
        description="flink-autoscaler: partitions of the topic that a source reads, by stage; its "
        "subtasks read them in turn; default: its log is divided evenly",
    )
    keys: dict[str, Any] = Field(default={}, description="the autoscaler's job.autoscaler.* keys")
    """As the file has them, beside the others."""

    @model_validator(mode="before")
    @classmethod
    def _own_keys(cls, raw: Any) -> Any:
        """Put the autoscaler's keys together, and refuse those of another policy."""
        if not isinstance(raw, Mapping) or "keys" in raw:
            return raw
        own = {key: value for key, value in raw.items() if PREFIX in str(key)}
        others = FLINK_KEYS if raw.get("policy") == "ds2" else DS2_KEYS
        wrong = next((key for key in raw if key in others), None)
        if raw.get("policy") == "ds2" and own:
            wrong = next(iter(own))
        if raw.get("policy") in POLICIES and wrong is not None:
            whose = "ds2" if wrong in DS2_KEYS else "flink-autoscaler"
            raise f.refuse(f"is a key of {whose}, not of {raw['policy']}: take it out", str(wrong))
        return {**{k: v for k, v in raw.items() if k not in own}, "keys": own}

    @model_serializer(mode="wrap")
    def _write(self, write: Any) -> dict[str, Any]:
        own = {key: value for key, value in write(self).items() if self.is_written(key)}
        keys = own.pop("keys", {})
        return {**own, **keys}

    @property
    def autoscaler(self) -> AutoscalerSettings:
        """What the autoscaler's keys say; ValueError if one is refused."""
        return read_autoscaler(self.keys, self.version)

    @property
    def interval_us(self) -> int:
        """Time between two looks, microseconds."""
        every = self.policy_interval if self.policy == "ds2" else self.interval_s
        return int(every * MICROSECONDS)

    @property
    def stands_us(self) -> int:
        """Time that the job stands between its end and its new start, microseconds."""
        return int((self.redeploy_s if self.policy == "ds2" else self.restart_s) * MICROSECONDS)


class _Staged(Protocol):
    """What is asked of a stage."""

    @property
    def name(self) -> str:
        """Its name."""


def scaling_problems(scaling: Scaling, stages: Sequence[_Staged]) -> Iterator[Problem]:
    """Yield what is wrong with a controller's keys."""
    names = [stage.name for stage in stages]
    if scaling.policy == "flink-autoscaler":
        try:
            excluded = scaling.autoscaler.vertex_exclude_ids
        except ValueError as error:
            key, _, text = str(error).partition(": ")
            yield Problem(key_path(["scaling", key]), text)
        else:
            for name in excluded:
                if name not in names:
                    place = key_path(["scaling", f"{PREFIX}vertex.exclude.ids"])
                    yield Problem(place, known(name, names, "stage"))
    for name in scaling.partitions:
        if name not in names:
            yield Problem(key_path(["scaling", "partitions", name]), known(name, names, "stage"))
