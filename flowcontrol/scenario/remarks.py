"""Warnings about valid scenarios that may surprise: checkpoints, failures, delivery."""

from collections.abc import Iterator

from flowcontrol.scenario.models import Scenario
from flowcontrol.scenario.refusals import faults
from flowcontrol.scenario.stage_models import Stage

_OWN = {
    "fixed-delay": ("fixed_delay_attempts", "fixed_delay_us"),
    "failure-rate": ("failure_rate_most", "failure_rate_interval_us", "failure_rate_delay_us"),
    "exponential-delay": (
        *("backoff_initial_us", "backoff_max_us", "backoff_multiplier", "backoff_reset_us"),
        *("backoff_jitter", "backoff_attempts"),
    ),
}
"""Options of each restart strategy."""


def scenario_warnings(scenario: Scenario) -> list[str]:
    """Return a sentence for each setting that has another effect than it seems to have."""
    warned = [_checkpoints, _batches, _sinks, _transactions, _restarts, _groups, _drift, _probes]
    return [text for warn in warned for _, text in warn(scenario)]


Warnings = Iterator[tuple[str, str]]


def _checkpoints(scenario: Scenario) -> Warnings:
    interval_us, length_us = scenario.options.checkpoint_interval_us, scenario.duration_us
    is_too_long = interval_us is not None and interval_us >= length_us
    given = {"interval_s": (interval_us or 0) / 1e6, "duration": length_us / 1e6}
    yield from faults("intervals", scenario, is_interval_too_long=is_too_long, **given)
    if scenario.checkpointing is not None:
        names = [one.name for one in scenario.stages if one.window is not None]
        yield from faults("checkpoints", scenario, windows=", ".join(names))


def _batches(scenario: Scenario) -> Warnings:
    batch_s, run_s = scenario.system.throttle_values.get("batch_ms", 0) / 1e3, scenario.duration_s
    yield from faults("batches", scenario, is_too_long=batch_s >= run_s, batch_s=batch_s)


def _sinks(scenario: Scenario) -> Warnings:
    checkpointing = scenario.checkpointing
    for stage in scenario.sinks:
        if stage.guarantee == "exactly-once":
            yield from faults("exactly-once sinks", stage, checkpointing=checkpointing)
            for source in scenario.sources_of(stage.name):
                yield from faults("exactly-once sinks of sources", stage, source=source)


def _transactions(scenario: Scenario) -> Warnings:
    interval_us = scenario.options.checkpoint_interval_us
    for stage in scenario.sinks:
        limit_us = stage.transaction_timeout_us
        if limit_us is not None and interval_us is not None:
            given = {"limit_s": limit_us / 1e6, "interval_s": interval_us / 1e6}
            is_too_short = limit_us <= interval_us
            yield from faults("transactions", stage, is_too_short=is_too_short, **given)


def _restarts(scenario: Scenario) -> Warnings:
    strategy, options = scenario.restart_strategy, scenario.options
    yield from faults("restarts", scenario, first=next(iter(scenario.failures), None))
    fields = type(options).model_fields
    for name, own in _OWN.items():
        stated = [field for field in own if getattr(options, field) != fields[field].default]
        if stated and name != strategy.name:
            key = fields[stated[0]].serialization_alias
            yield "", f"{key} has no effect: the restart strategy is {strategy.name}."


def _groups(scenario: Scenario) -> Warnings:
    members: dict[str, list[Stage]] = {}
    for stage in scenario.sources:
        if stage.watermark is not None and stage.watermark.alignment is not None:
            members.setdefault(stage.watermark.alignment.group, []).append(stage)
    for group, stages in members.items():
        subtasks = sum(stage.parallelism for stage in stages)
        own = {"stage": stages[0], "group": group, "subtasks": subtasks}
        yield from faults("groups of aligned sources", scenario, **own)


def _drift(scenario: Scenario) -> Warnings:
    """Yield of made times; how fast event time passes in rows is not known before they are read."""
    for stage in scenario.sources:
        marks, times = stage.watermark, stage.event_time
        if marks is None or marks.alignment is None or times is None or times.column is not None:
            continue
        own = marks.alignment
        probes_s = 0.0 if marks.punctuated else scenario.options.watermark_interval_us / 1e6
        late = (2 * float(own.interval_s), "two of its interval_s")
        late_s, what = max(
            late, (probes_s, "pipeline.auto-watermark-interval"), key=lambda one: one[0]
        )
        facts = {"own": own, "late_s": late_s, "what": what}
        is_short = float(own.max_drift_s) < late_s
        yield from faults(
            "aligned sources", scenario, stage=stage, is_drift_short=is_short, **facts
        )


def _probes(scenario: Scenario) -> Warnings:
    interval_us = scenario.options.watermark_interval_us
    for stage in scenario.sources if scenario.time_model == "flink" and not interval_us else ():
        if stage.watermark is not None:
            yield from faults("probes", stage.watermark, name=stage.name)
    default = type(scenario.options).model_fields["watermark_interval_us"].default
    yield from faults("probes of Spark", scenario, is_interval_given=interval_us != default)
