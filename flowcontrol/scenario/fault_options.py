"""Flink's options of checkpoints, restarts and heartbeats, as they are stated.

What they mean together, in the form that the clocks use, is in
:mod:`flowcontrol.scenario.fault_tolerance`.
"""

from pydantic import BaseModel, ConfigDict

from flowcontrol.scenario.option_table import option_field

_CHECKPOINT = "execution.checkpointing."
_FIXED = "restart-strategy.fixed-delay."
_RATE = "restart-strategy.failure-rate."
_EXPONENTIAL = "restart-strategy.exponential-delay."


class FaultOptions(BaseModel):
    """Options of checkpoints, restarts and heartbeats: each field with the option that it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoint_interval_us: int | None = option_field(_CHECKPOINT + "interval")
    """None: no periodic checkpoints."""
    checkpoint_mode: str = option_field(_CHECKPOINT + "mode")
    checkpoint_timeout_us: int = option_field(_CHECKPOINT + "timeout")
    checkpoint_min_pause_us: int = option_field(_CHECKPOINT + "min-pause")
    max_concurrent_checkpoints: int = option_field(_CHECKPOINT + "max-concurrent-checkpoints")
    tolerable_failed_checkpoints: int = option_field(_CHECKPOINT + "tolerable-failed-checkpoints")
    unaligned_enabled: bool = option_field(_CHECKPOINT + "unaligned.enabled")
    unaligned_forced: bool = option_field(_CHECKPOINT + "unaligned.forced")
    interruptible_timers: bool = option_field(
        _CHECKPOINT + "unaligned.interruptible-timers.enabled"
    )
    aligned_timeout_us: int = option_field(_CHECKPOINT + "aligned-checkpoint-timeout")
    alignment_bytes_limit: int = option_field("task.checkpoint.alignment.max-size")
    """-1: as much as comes."""
    checkpoints_after_finish: bool = option_field(_CHECKPOINT + "checkpoints-after-tasks-finish")
    restart_type: str | None = option_field("restart-strategy.type")
    """None: Flink chooses."""
    fixed_delay_attempts: int = option_field(_FIXED + "attempts")
    fixed_delay_us: int = option_field(_FIXED + "delay")
    failure_rate_most: int = option_field(_RATE + "max-failures-per-interval")
    failure_rate_interval_us: int = option_field(_RATE + "failure-rate-interval")
    failure_rate_delay_us: int = option_field(_RATE + "delay")
    backoff_initial_us: int = option_field(_EXPONENTIAL + "initial-backoff")
    backoff_max_us: int = option_field(_EXPONENTIAL + "max-backoff")
    backoff_multiplier: float = option_field(_EXPONENTIAL + "backoff-multiplier")
    backoff_reset_us: int = option_field(_EXPONENTIAL + "reset-backoff-threshold")
    backoff_jitter: float = option_field(_EXPONENTIAL + "jitter-factor")
    backoff_attempts: int = option_field(_EXPONENTIAL + "attempts-before-reset-backoff")
    heartbeat_interval_us: int = option_field("heartbeat.interval")
    heartbeat_timeout_us: int = option_field("heartbeat.timeout")
    heartbeat_rpc_failures: int = option_field("heartbeat.rpc-failure-threshold")
    """-1: failed calls do not make a task manager unreachable."""
