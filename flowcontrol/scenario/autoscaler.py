"""The keys of Flink's autoscaler, read into one object.

``autoscaler_options.yaml`` has the keys with their kinds, limits and defaults. What they do is in
:mod:`flowcontrol.scaling`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from flowcontrol.scenario.option_table import Option, read_option_table
from flowcontrol.scenario.problems import nearest, show

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
