"""Flink's options in the form that flow control uses, combined."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_serializer

from flowcontrol.errors import Problem
from flowcontrol.scenario.option_table import ALIASES, OPTIONS, Value, option_field
from flowcontrol.scenario.problems import key_path, nearest
from flowcontrol.scenario.syntax import LONG_MAX, read_memory

_CHAINING = "pipeline.operator-chaining."
_CHECKPOINT = "execution.checkpointing."
_FIXED = "restart-strategy.fixed-delay."
_RATE = "restart-strategy.failure-rate."
_EXPONENTIAL = "restart-strategy.exponential-delay."
_TM = "taskmanager.memory."
_NET = "taskmanager.network."
_NETMEM = "taskmanager.network.memory."


class NetworkOptions(BaseModel):
    """Flink's options, as flow control uses them: each field with the option that it is.

    Names end in the unit; what has none is a number of buffers, or of samples.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Graphs: chaining, parallelism and slots.
    operator_chaining: bool = option_field(_CHAINING + "enabled")
    chains_different_max_parallelism: bool = option_field(
        _CHAINING + "chain-operators-with-different-max-parallelism"
    )
    index_prefix: bool = option_field("pipeline.vertex-name-include-index-prefix")
    runtime_mode: str = option_field("execution.runtime-mode")
    default_parallelism: int = option_field("parallelism.default")
    max_parallelism: int | None = option_field("pipeline.max-parallelism")
    """None: Flink's default for the parallelism of each operator."""
    task_slots: int | None = option_field("taskmanager.numberOfTaskSlots")
    """None: ``cluster.slots`` says."""
    load_balance_mode: str = option_field("taskmanager.load-balance.mode")
    evenly_spread_out_slots: bool = option_field("cluster.evenly-spread-out-slots")
    slot_request_timeout_us: int = option_field("slot.request.timeout")
    managed_bytes: int | None = option_field("taskmanager.memory.managed.size")
    """Of a task manager; None: no size was stated that it could be a share of."""

    # Event time.
    watermark_interval_us: int = option_field("pipeline.auto-watermark-interval")
    """Between two probes of a source's watermark; 0: never."""
    latency_interval_us: int = option_field("metrics.latency.interval")
    """Between two latency markers of a source; 0: none."""

    # Checkpoints, restarts and heartbeats.
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

    # The network.
    segment_bytes: int = option_field(_TM + "segment-size")
    exclusive_buffers: int = option_field(_NETMEM + "buffers-per-channel")
    floating_buffers: int = option_field(_NETMEM + "floating-buffers-per-gate")
    max_buffers_per_channel: int = option_field(_NETMEM + "max-buffers-per-channel")
    max_overdraft_buffers: int = option_field(_NETMEM + "max-overdraft-buffers-per-gate")
    read_buffer_threshold: int | None = option_field(_NETMEM + "read-buffer.required-per-gate.max")
    """None: no limit, as for streaming jobs."""
    flush_interval_us: int = option_field("execution.buffer-timeout.interval")
    """0 flushes after every record, -1 never."""
    network_buffers: int = Field(default=2_048, serialization_alias=_NET + "numberOfBuffers")
    """Of a task manager: its network memory divided by the size of a buffer."""
    buffers_request_timeout_us: int = option_field(_NETMEM + "buffers-request-timeout")
    debloat_enabled: bool = option_field(_NETMEM + "buffer-debloat.enabled")
    debloat_period_us: int = option_field(_NETMEM + "buffer-debloat.period")
    debloat_target_us: int = option_field(_NETMEM + "buffer-debloat.target")
    """How long a gate should take to consume all that is in flight to it."""
    debloat_samples: int = option_field(_NETMEM + "buffer-debloat.samples")
    debloat_threshold_percent: int = option_field(_NETMEM + "buffer-debloat.threshold-percentages")
    min_segment_bytes: int = option_field(_TM + "min-segment-size")
    sort_min_buffers: int = option_field(_NET + "sort-shuffle.min-buffers")
    sort_min_parallelism: int = option_field(_NET + "sort-shuffle.min-parallelism")
    """Subpartitions from which on a sort-merge partition sorts; fewer are written by hash."""
    read_memory_bytes: int = option_field(_TM + "framework.off-heap.batch-shuffle.size")
    unemulated: tuple[tuple[str, bool | int | str], ...] = ()
    """Options whose mechanism no clock emulates, set to something that would change the run;
    :func:`~flowcontrol.scenario.check_clock` refuses them."""

    @model_serializer
    def canonical(self) -> dict[str, bool | int | float | str]:
        """Return the options as a scenario file states them, one way for equal options."""
        written: dict[str, bool | int | float | str] = {}
        for name, field in type(self).model_fields.items():
            key, value = field.serialization_alias, getattr(self, name)
            if key is None or (value == field.default and not OPTIONS[key].always):
                continue
            in_ms = name.endswith("_us") and (value > 0 or name != "flush_interval_us")
            written[key] = f"{value // 1000}ms" if in_ms else value
        return written | dict(self.unemulated)


NEVER: Final = -1
"""Flush interval of a job without a flusher: only full buffers and events are sent."""

_SEGMENT = "taskmanager.memory.segment-size"
_SMALLEST = "taskmanager.memory.min-segment-size"
_BUFFERS = "taskmanager.network.numberOfBuffers"
_FRACTION, _MIN, _MAX = (f"taskmanager.memory.network.{end}" for end in ("fraction", "min", "max"))
_FLINK, _PROCESS = (f"taskmanager.memory.{end}.size" for end in ("flink", "process"))
_MANAGED, _MANAGED_FRACTION = (f"taskmanager.memory.managed.{end}" for end in ("size", "fraction"))
_OVERHEAD = "taskmanager.memory.jvm-overhead."

_CONCURRENT = "execution.checkpointing.max-concurrent-checkpoints"
_MODE = "execution.checkpointing.mode"
_UNALIGNED = "execution.checkpointing.unaligned.enabled"
_ALIGNMENT = "task.checkpoint.alignment.max-size"
_BACKOFF, _MAX_BACKOFF = (
    f"restart-strategy.exponential-delay.{end}" for end in ("initial-backoff", "max-backoff")
)
_HEARTBEAT, _HEARTBEAT_TIMEOUT = "heartbeat.interval", "heartbeat.timeout"
_HEARTBEAT_RPC = "heartbeat.rpc-failure-threshold"

_STEP: Final = 64 * 1024 * 1024
"""Bytes by which a total is raised until the network memory has room in it."""


def read_options(raw: Mapping[Any, Any], problems: list[Problem]) -> NetworkOptions | None:
    """Read the options of a scenario.

    ``problems``: grows by everything that is wrong.

    Returns None if something is wrong.
    """
    before = len(problems)
    given = _read_values(raw, problems)
    _check_together(given, problems)
    if len(problems) > before:
        return None
    buffers = _network_buffers(given, problems)
    if buffers is None:
        return None
    stated = {
        name: _value(given, field.serialization_alias)
        for name, field in NetworkOptions.model_fields.items()
        if field.serialization_alias is not None
    }
    if not _value(given, "execution.buffer-timeout.enabled"):
        stated["flush_interval_us"] = NEVER
    stated["network_buffers"] = buffers
    stated["managed_bytes"] = _managed_memory(given, buffers, problems)
    if len(problems) > before:
        return None
    return NetworkOptions.model_validate({**stated, "unemulated": _unemulated(given)})


def _place(key: str) -> str:
    return key_path(["options", key])


def _read_values(raw: Mapping[Any, Any], problems: list[Problem]) -> dict[str, Value]:
    """Read each value by its own syntax."""
    given: dict[str, Value] = {}
    for key, value in raw.items():
        name = ALIASES.get(key, key)
        if name not in OPTIONS:
            hint = nearest(str(key), [*OPTIONS, *ALIASES])
            text = f"{str(key)!r} is not a known option of Flink{hint}"
        elif name in given:
            old = next(alias for alias, new in ALIASES.items() if new == name)
            text = f"{old!r} is the old name of {name!r}, which is stated too: keep one of them"
        else:
            try:
                given[name] = OPTIONS[name].read(value)
                continue
            except ValueError as error:
                text = f"{error} ({OPTIONS[name].meaning})"
        problems.append(Problem(_place(str(key)), text))
    return given


def _value(given: Mapping[str, Value], key: str) -> Value:
    return given[key] if key in given else OPTIONS[key].default


def _int(given: Mapping[str, Value], key: str) -> int:
    return int(_value(given, key) or 0)


def _check_together(given: Mapping[str, Value], problems: list[Problem]) -> None:
    """Refuse options that contradict each other."""
    limits = ((_MIN, _MAX), (f"{_OVERHEAD}min", f"{_OVERHEAD}max"), (_SMALLEST, _SEGMENT))
    for low, high in limits:
        if _int(given, low) > _int(given, high):
            text = f"{_int(given, low)} bytes is more than {high}, {_int(given, high)} bytes"
            problems.append(Problem(_place(low), f"{text}: lower it, or raise the other"))
    rivals = [key for key in (_FRACTION, _MIN, _MAX) if key in given]
    if _BUFFERS in given and rivals:
        text = f"{given[_BUFFERS]} has no effect in Flink next to {', '.join(rivals)}: keep one"
        problems.append(Problem(_place(_BUFFERS), text))
    _check_faults_together(given, problems)


def _check_faults_together(given: Mapping[str, Value], problems: list[Problem]) -> None:
    """Refuse what Flink refuses of checkpoints, restarts and heartbeats, in its words."""
    concurrent, is_exact = _int(given, _CONCURRENT), _value(given, _MODE) == "exactly_once"
    if _value(given, _UNALIGNED) and is_exact and concurrent > 1:
        text = (
            f"{concurrent}: maxConcurrentCheckpoints can't be > 1 if UnalignedCheckpoints enabled"
        )
        problems.append(Problem(_place(_CONCURRENT), f"{text}: use 1, or leave {_UNALIGNED} out"))
    if _int(given, _ALIGNMENT) == 0:
        text = "0 bytes: must be positive or -1 (infinite)"
        problems.append(Problem(_place(_ALIGNMENT), f"{text}; -1 puts aside as much as comes"))
    first, most = _int(given, _BACKOFF), _int(given, _MAX_BACKOFF)
    if first > most:
        text = f"{first // 1000} ms: Initial backoff cannot be higher than maximum backoff"
        text = f"{text}, {most // 1000} ms: lower it, or raise {_MAX_BACKOFF}"
        problems.append(Problem(_place(_BACKOFF), text))
    beat, timeout = _int(given, _HEARTBEAT), _int(given, _HEARTBEAT_TIMEOUT)
    if beat > timeout:
        text = "The heartbeat timeout should be larger or equal than the heartbeat interval"
        text = f"{timeout // 1000} ms: {text}, {beat // 1000} ms: raise it, or lower {_HEARTBEAT}"
        problems.append(Problem(_place(_HEARTBEAT_TIMEOUT), text))
    if _int(given, _HEARTBEAT_RPC) == 0:
        text = "The number of failed heartbeat RPC requests has to be larger than 0 or -1"
        problems.append(Problem(_place(_HEARTBEAT_RPC), f"0: {text} (deactivated)"))


def _network_buffers(given: Mapping[str, Value], problems: list[Problem]) -> int | None:
    """Return the buffers of a task manager: its network memory / the size of a buffer.

    Flink's ``TaskExecutorFlinkMemoryUtils``: a share of Flink's memory within its limits; the
    legacy number of buffers only if none of the three is given. Without any total size, with
    which no task manager of Flink would start, the least network memory counts.
    """
    segment, total = _int(given, _SEGMENT), _flink_memory(given)
    if _BUFFERS in given:
        memory = _int(given, _BUFFERS) * segment
    elif total is None:
        memory = _int(given, _MIN)
    else:
        memory = _clamped_share(given, total, _FRACTION, _MIN)
    if total is not None and memory > total:
        stated = _FLINK if _FLINK in given else _PROCESS
        least = "" if _BUFFERS in given else "at least "
        text = (
            f"{_int(given, stated)} bytes leave {max(total, 0)} for Flink, but the network needs "
            f"{least}{memory}: raise it, or lower {_BUFFERS if _BUFFERS in given else _MIN}"
        )
        problems.append(Problem(_place(stated), text))
        return None
    if memory < segment:
        text = f"{memory} bytes for the network are less than a buffer of {segment} bytes: raise it"
        problems.append(Problem(_place(_MIN), text))
        return None
    return memory // segment


def _managed_memory(
    given: Mapping[str, Value], buffers: int, problems: list[Problem]
) -> int | None:
    """Return the managed memory of a task manager, bytes; None without a size to share.

    Flink's ``TaskExecutorFlinkMemoryUtils``: as stated, else a share of Flink's memory.
    """
    total = _flink_memory(given)
    stated = given.get(_MANAGED)
    if stated is None:
        share = Fraction(_value(given, _MANAGED_FRACTION) or 0)
        return None if total is None else int(share * total)
    network = buffers * _int(given, _SEGMENT)
    if total is not None and int(stated) + network > total:
        text = f"{int(stated)} bytes and {network} for the network are more than Flink's {total}"
        problems.append(Problem(_place(_MANAGED), f"{text}: lower it, or raise {_FLINK}"))
    return int(stated)


def _flink_memory(given: Mapping[str, Value]) -> int | None:
    """Return Flink's memory in bytes, perhaps negative; None if no size was stated."""
    if _FLINK in given:
        return _int(given, _FLINK)
    if _PROCESS not in given:
        return None
    process = _int(given, _PROCESS)
    overhead = _clamped_share(given, process, f"{_OVERHEAD}fraction", f"{_OVERHEAD}min")
    return process - _int(given, "taskmanager.memory.jvm-metaspace.size") - overhead


def _clamped_share(given: Mapping[str, Value], total: int, fraction: str, low: str) -> int:
    """Return floor(fraction x total), within the minimum and its maximum."""
    share = int(Fraction(_value(given, fraction) or 0) * total)
    high = _int(given, f"{low.removesuffix('min')}max")
    return min(max(share, _int(given, low)), high, LONG_MAX)


def _unemulated(given: Mapping[str, Value]) -> tuple[tuple[str, bool | int | str], ...]:
    """Return what is set to something that would change the run, as a file may state it."""
    changed = {
        key: value
        for key, value in sorted(given.items())
        if OPTIONS[key].effect == "refused" and value != OPTIONS[key].default
    }
    for key in changed:
        if OPTIONS[key].kind == "duration":
            changed[key] = f"{_int(given, key) // 1000}ms"
    return tuple((key, value) for key, value in changed.items() if isinstance(value, int | str))


def memory_options(
    stated: Mapping[Any, Any], buffers: int, segment_bytes: int
) -> dict[str, str | int]:
    """Return the options that give a task manager a number of network buffers.

    The minimum of the network memory overrides the fraction. Flink's
    own message names the fraction as well; what it yields depends on the total size.

    - ``stated``: options as the scenario states them; they were read without a problem.
    - ``buffers``: how many there shall be, at least 1.
    - ``segment_bytes``: size of a buffer, bytes.

    Returns the option and its value: the legacy number of buffers if it is set, else the minimum
    network memory, with the limits that would prevent it.
    """
    given = {ALIASES.get(key, key): value for key, value in stated.items()}
    if _BUFFERS in given:
        return {_BUFFERS: buffers}
    needed = buffers * segment_bytes
    text = f"{needed // 1024}kb" if needed % 1024 == 0 else str(needed)
    found: dict[str, str | int] = {_MIN: text}
    if _MAX in given and read_memory(given[_MAX]) < needed:
        found[_MAX] = text
    size = next((key for key in (_FLINK, _PROCESS) if key in given), None)
    total = needed
    while size is not None and not _is_read({**given, **found}):
        found[size] = f"{-(-total // 1024)}kb"
        total += _STEP
    return found


def _is_read(options: Mapping[Any, Any]) -> bool:
    """Tell whether options contradict each other or not."""
    problems: list[Problem] = []
    read_options(options, problems)
    return not problems
