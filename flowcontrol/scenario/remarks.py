"""What is allowed in a scenario and may surprise: warnings of checkpoints, failures, delivery."""

from collections.abc import Iterator

from flowcontrol.scenario.fault_tolerance import NoRestart
from flowcontrol.scenario.models import Scenario

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
    return [
        *_interval(scenario),
        *_unaligned(scenario),
        *_exactly_once(scenario),
        *_transactions(scenario),
        *_restarts(scenario),
        *_alignment(scenario),
        *_drift(scenario),
        *_probes(scenario),
        *_no_probes(scenario),
    ]


def _alignment(scenario: Scenario) -> Iterator[str]:
    """A group of one subtask waits for nobody."""
    for group in scenario.alignment_groups:
        members = [
            stage
            for stage in scenario.sources
            if stage.watermark is not None
            and stage.watermark.alignment is not None
            and stage.watermark.alignment.group == group
        ]
        if sum(stage.parallelism for stage in members) == 1:
            yield (
                f"{members[0].name}: it is alone in the group {group!r}, so its alignment has no "
                "effect: name the same group in another source."
            )


def _drift(scenario: Scenario) -> Iterator[str]:
    """A drift that event time passes before the group has answered pauses also the slowest source.

    An answer is up to two intervals old, and a watermark up to one interval of probes. How fast
    event time passes in rows that bring their own is not known before they are read.
    """
    for stage in scenario.sources:
        marks, times = stage.watermark, stage.event_time
        if marks is None or marks.alignment is None or times is None or times.column is not None:
            continue
        own = marks.alignment
        probes_s = 0.0 if marks.punctuated else scenario.options.watermark_interval_us / 1e6
        late_s, what = 2 * float(own.interval_s), "two of its interval_s"
        if probes_s > late_s:
            late_s, what = probes_s, "pipeline.auto-watermark-interval"
        if float(own.max_drift_s) < late_s:
            yield (
                f"{stage.name}: max_drift_s {float(own.max_drift_s):g} is less than {what}, "
                f"{late_s:g} s: the group {own.group!r} may hear so late how far its sources are "
                "that also the slowest is paused: raise it, or lower the interval."
            )


def _no_probes(scenario: Scenario) -> Iterator[str]:
    """Spark works watermarks out at the end of a batch."""
    default = type(scenario.options).model_fields["watermark_interval_us"].default
    is_given = scenario.options.watermark_interval_us != default
    if is_given and scenario.has_event_time and scenario.time_model == "spark":
        yield (
            "pipeline.auto-watermark-interval has no effect with time_model: spark: Spark works "
            "its watermark out at the end of each batch."
        )


def _probes(scenario: Scenario) -> Iterator[str]:
    """Without probes neither watermarks nor idleness come to light."""
    is_never = scenario.options.watermark_interval_us == 0 and scenario.time_model == "flink"
    for stage in scenario.sources:
        marks = stage.watermark
        if is_never and marks is not None and not (marks.punctuated and marks.idle_after_s is None):
            what = (
                "idleness is never noticed" if marks.punctuated else "no watermark ever leaves it"
            )
            yield f"{stage.name}: pipeline.auto-watermark-interval is 0, so {what}."


def _interval(scenario: Scenario) -> Iterator[str]:
    interval_us = scenario.options.checkpoint_interval_us
    if interval_us is not None and interval_us >= scenario.duration_us:
        yield (
            f"execution.checkpointing.interval, {interval_us / 1e6:g} s, is not shorter than the "
            f"run, {scenario.duration_us / 1e6:g} s: no checkpoint is triggered by it."
        )


def _unaligned(scenario: Scenario) -> Iterator[str]:
    checkpointing = scenario.checkpointing
    if checkpointing is None:
        return
    if scenario.options.unaligned_enabled and checkpointing.mode != "exactly_once":
        yield (
            "execution.checkpointing.unaligned.enabled: Unaligned checkpoints can only be used "
            "with checkpointing mode EXACTLY_ONCE; they are off, as in Flink."
        )
    if not scenario.options.unaligned_enabled and checkpointing.aligned_timeout_us:
        yield (
            "execution.checkpointing.aligned-checkpoint-timeout has no effect without "
            "execution.checkpointing.unaligned.enabled: barriers stay aligned."
        )
    if scenario.options.interruptible_timers:
        yield from _interruptible(scenario, is_on=checkpointing.interrupts_timers)
    is_limited = scenario.options.alignment_bytes_limit > 0
    if is_limited and scenario.system.transport != "tcp":
        yield (
            "task.checkpoint.alignment.max-size has no effect: since Flink 1.11 the sender of a "
            "channel waits behind a barrier, and nothing is put aside."
        )


def _interruptible(scenario: Scenario, *, is_on: bool) -> Iterator[str]:
    """In Flink the operator decides, and the windows of the DataStream API do not take part."""
    key = "execution.checkpointing.unaligned.interruptible-timers.enabled"
    names = [stage.name for stage in scenario.stages if scenario.window_of(stage.name) is not None]
    if not is_on:
        yield f"{key} has no effect without execution.checkpointing.unaligned.enabled."
    elif names:
        yield (
            f"{key}: {', '.join(names)} counts as a window of Flink SQL (1.20 and later); "
            "DataStream windows ignore the option."
        )


def _exactly_once(scenario: Scenario) -> Iterator[str]:
    checkpointing = scenario.checkpointing
    for stage in scenario.sinks:
        if stage.guarantee != "exactly-once":
            continue
        if checkpointing is None:
            yield (
                f"{stage.name}: exactly-once commits with checkpoints, and there are none, so "
                "nothing becomes visible: state execution.checkpointing.interval."
            )
        elif checkpointing.mode != "exactly_once":
            yield (
                f"{stage.name}: exactly-once with the checkpointing mode AT_LEAST_ONCE: after a "
                "restart rows are written, and committed, twice."
            )
        above = scenario.upstream(stage.name)
        for source in scenario.sources:
            if source.name in above and not source.replayable:
                yield (
                    f"{stage.name}: exactly-once, but {source.name} cannot rewind (replayable: "
                    "false): what it emitted after the checkpoint is lost in a restart."
                )


def _transactions(scenario: Scenario) -> Iterator[str]:
    """A transaction is open from one barrier to the next, and then until its checkpoint ends."""
    interval_us = scenario.options.checkpoint_interval_us
    for stage in scenario.sinks:
        limit_us = stage.transaction_timeout_us
        if limit_us is None or interval_us is None or limit_us > interval_us:
            continue
        yield (
            f"{stage.name}: transaction_timeout_s, {limit_us / 1e6:g} s, is not longer than "
            f"execution.checkpointing.interval, {interval_us / 1e6:g} s: a transaction expires "
            "before its checkpoint commits it, and its records are lost: state more than "
            "interval, checkpoint and restart take together."
        )


def _restarts(scenario: Scenario) -> Iterator[str]:
    strategy, options = scenario.restart_strategy, scenario.options
    if scenario.failures and isinstance(strategy, NoRestart):
        first = scenario.failures[0]
        yield (
            f"restart strategy none: the job ends with the failure of {first.victim} at "
            f"{float(first.at_s):g} s: state restart-strategy.type."
        )
    fields = type(options).model_fields
    for name, own in _OWN.items():
        stated = [field for field in own if getattr(options, field) != fields[field].default]
        if stated and name != strategy.name:
            key = fields[stated[0]].serialization_alias
            yield f"{key} has no effect: the restart strategy is {strategy.name}."
