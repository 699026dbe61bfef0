"""The keys of a controller that changes parallelism during the run.

``autoscaler_options.yaml`` has the keys of Flink's autoscaler with kinds, limits and defaults. What
they do is in :mod:`flowcontrol.scaling`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import model_serializer, model_validator

from flowcontrol.errors import Problem
from flowcontrol.scenario import fields as f
from flowcontrol.scenario.option_table import Option, read_option_table
from flowcontrol.scenario.problems import key_path, known, nearest, show
from flowcontrol.scenario.schedule import MICROSECONDS

Version = Literal["head", "1.15"]
"""Release of the Flink Kubernetes operator whose rules hold."""

PREFIX: Final = "job.autoscaler."
OLD_PREFIX: Final = "kubernetes.operator."
"""Before the prefix in older files."""

MODE: Final = "scaling.parallelism-alignment.mode"
OLD_MODE: Final = "scaling.key-group.partitions.adjust.mode"

OPTIONS: Final[Mapping[str, Option]] = read_option_table("autoscaler_options.yaml")
"""Every key without its prefix."""

_ALIASES: Final = {option.old: key for key, option in OPTIONS.items() if option.old}


@dataclass(frozen=True, kw_only=True)
class AutoscalerSettings:
    """What the keys ``job.autoscaler.*`` say; a duration is in microseconds.

    The other attributes are the keys of ``autoscaler_options.yaml``, in which each dot and dash
    became an underscore. None: not stated, and without a default.
    """

    version: Version = "head"  # Release of the operator whose rules hold
    scaling_enabled: bool
    metrics_window: int
    stabilization_interval: int
    utilization_target: float
    target_utilization_boundary: float
    utilization_max: float | None
    utilization_min: float | None
    scale_down_interval: int
    vertex_min_parallelism: int
    vertex_max_parallelism: int
    scale_down_max_factor: float
    scale_up_max_factor: float
    catch_up_duration: int
    restart_time: int
    restart_time_tracking_enabled: bool
    restart_time_tracking_limit: int
    backlog_processing_lag_threshold: int
    observed_true_processing_rate_lag_threshold: int
    observed_true_processing_rate_switch_threshold: float
    observed_true_processing_rate_min_observations: int
    scaling_effectiveness_detection_enabled: bool
    scaling_effectiveness_threshold: float
    history_max_count: int
    history_max_age: int
    metrics_busy_time_aggregator: Literal["max", "avg", "min"]
    vertex_exclude_ids: tuple[str, ...]
    scaling_parallelism_alignment_mode: str | None
    scaling_key_group_partitions_adjust_mode: str | None
    observed_scalability_enabled: bool
    observed_scalability_min_observations: int
    observed_scalability_coefficient_min: float

    @property
    def alignment(self) -> tuple[str, Version]:
        """Mode of alignment, and the version whose rules it follows.

        The old key has the rules of 1.15 in every version, unless the new one is stated.
        """
        if self.version == "head" and self.scaling_parallelism_alignment_mode is not None:
            return self.scaling_parallelism_alignment_mode, "head"
        if self.scaling_key_group_partitions_adjust_mode is not None:
            return self.scaling_key_group_partitions_adjust_mode, "1.15"
        return ("balanced", "head") if self.version == "head" else ("evenly_spread", "1.15")

    @property
    def band(self) -> tuple[float, float]:
        """Least and most utilisation at which nothing is done."""
        low, high = self.utilization_min, self.utilization_max
        edge = self.target_utilization_boundary
        return (
            self.utilization_target - edge if low is None else low,
            self.utilization_target + edge if high is None else high,
        )


def read_autoscaler(options: Mapping[str, object], version: str = "head") -> AutoscalerSettings:
    """Read the autoscaler's keys.

    ``options``: values in Flink's syntax by key, ``{"job.autoscaler.metrics.window": "5 min"}``.

    With Flink's defaults for what is not stated. Raises ValueError if the version is unknown, or a
    key is unknown, stated twice, out of range, or says what is not emulated. The text begins with
    the key.
    """
    if version not in {"head", "1.15"}:
        raise ValueError(f"version: {show(version)} is not one of head, 1.15")
    stated: dict[str, object] = {}
    for key, value in options.items():
        name, option = _option(key)
        if name == MODE and version == "1.15":
            raise ValueError(f"{key}: unknown in 1.15: write {PREFIX}{OLD_MODE}")
        if name in stated:
            raise ValueError(f"{key}: states {PREFIX}{name} a second time: leave one of them out")
        try:
            stated[name] = option.read(value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
        if option.effect == "refused" and stated[name] != option.default:
            raise ValueError(
                f"{key}: {show(value)}: {option.meaning} is not emulated: leave it out"
            )
    settings = _settings(stated, version)
    _check(settings)
    return settings


def _option(key: object) -> tuple[str, Option]:
    """Return name and option of a key as it is written."""
    text = str(key)
    name = text.removeprefix(OLD_PREFIX).removeprefix(PREFIX)
    name = _ALIASES.get(name, name)
    if not isinstance(key, str) or PREFIX not in text or name not in OPTIONS:
        hint = nearest(text, [f"{PREFIX}{one}" for one in OPTIONS])
        raise ValueError(f"{text}: unknown key{hint or f': keys begin with {PREFIX}'}")
    return name, OPTIONS[name]


def _settings(stated: Mapping[str, object], version: Any) -> AutoscalerSettings:
    names = {key.replace(".", "_").replace("-", "_"): key for key in OPTIONS}
    own = [field.name for field in fields(AutoscalerSettings) if field.name != "version"]
    values: dict[str, Any] = {
        name: stated.get(names[name], OPTIONS[names[name]].default) for name in own
    }
    values["vertex_exclude_ids"] = tuple(filter(None, values["vertex_exclude_ids"].split(",")))
    return AutoscalerSettings(version=version, **values)


def _check(settings: AutoscalerSettings) -> None:
    """Refuse what Flink's validator refuses of two keys together."""
    least, most = settings.vertex_min_parallelism, settings.vertex_max_parallelism
    if least > most:
        raise ValueError(
            f"{PREFIX}vertex.min-parallelism: {least} is more than vertex.max-parallelism, {most}: "
            "lower it"
        )
    low, high = settings.band
    if not low <= settings.utilization_target <= high:
        raise ValueError(
            f"{PREFIX}utilization.target: {settings.utilization_target:g} is not between "
            f"utilization.min, {low:g}, and utilization.max, {high:g}: change one of them"
        )


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


class Scaling(f.Mapping):
    """A controller that changes the parallelism of stages during the run."""

    quiet = frozenset({*DS2_KEYS, *FLINK_KEYS, "keys"})

    policy: Policy = f.key("Scaling.policy", ...)
    policy_interval: f.PositiveSeconds = f.key("Scaling.policy_interval", Fraction(10))
    warm_up_time: f.Moment = f.key("Scaling.warm_up_time", Fraction(10))
    activation_time: f.Count = f.key("Scaling.activation_time", 1)
    scaling_factor: Extra = f.key("Scaling.scaling_factor", Fraction(0))
    target_rate_ratio: Ratio | None = f.key("Scaling.target_rate_ratio")
    redeploy_s: f.Moment = f.key("Scaling.redeploy_s", Fraction(40))
    version: Version = f.key("Scaling.version", "head")
    interval_s: f.PositiveSeconds = f.key("Scaling.interval_s", Fraction(60))
    restart_s: f.Moment = f.key("Scaling.restart_s", Fraction(30))
    partitions: dict[str, f.Count] = f.key("Scaling.partitions", {})
    keys: dict[str, Any] = f.key("Scaling.keys", {})
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
            raise f.refuse(f"is a key of {whose}, not of {raw['policy']}: remove it", str(wrong))
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
