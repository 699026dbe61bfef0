"""Flink's options of its graphs and slots, as they are stated."""

from pydantic import BaseModel, ConfigDict

from flowcontrol.scenario.option_table import option_field

_CHAINING = "pipeline.operator-chaining."


class GraphOptions(BaseModel):
    """Options of chaining, parallelism and slots: each field with the option that it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
