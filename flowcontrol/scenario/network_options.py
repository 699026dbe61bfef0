"""Flink's options of the network, in the form that flow control works with."""

from pydantic import Field, model_serializer

from flowcontrol.scenario.event_time_options import EventTimeOptions
from flowcontrol.scenario.fault_options import FaultOptions
from flowcontrol.scenario.graph_options import GraphOptions
from flowcontrol.scenario.option_table import OPTIONS, option_field

_TM = "taskmanager.memory."
_NET = "taskmanager.network."
_NETMEM = "taskmanager.network.memory."


class NetworkOptions(FaultOptions, EventTimeOptions, GraphOptions):
    """Flink's options, as flow control uses them: each field with the option that it is.

    Names end in the unit; what has none is a number of buffers, or of samples. Those of
    checkpoints, failures, event time and graphs are inherited.
    """

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
