"""Flink's options of event time and of latency markers, as they are stated."""

from pydantic import BaseModel, ConfigDict

from flowcontrol.scenario.option_table import option_field


class EventTimeOptions(BaseModel):
    """Options of watermarks and latency markers: each field with the option that it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    watermark_interval_us: int = option_field("pipeline.auto-watermark-interval")
    """Between two probes of a source's watermark; 0: never."""
    latency_interval_us: int = option_field("metrics.latency.interval")
    """Between two latency markers of a source; 0: none."""
