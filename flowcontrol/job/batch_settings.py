"""What tasks whose windows are Spark's begin with, and when batches end."""

from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.protocol.spark_time.states import TaskBatch
from flowcontrol.protocol.spark_time.watermarks import APPEND, COMPLETE, UPDATE, WatermarkOperator
from flowcontrol.protocol.windows.states import WindowStore
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.event_time_checks import BATCH_THROTTLE
from flowcontrol.scenario.event_time_models import in_ms

NEVER = 1 << 62
"""In place of a round."""

_MODES = {"append": APPEND, "update": UPDATE, "complete": COMPLETE}


def has_batches(scenario: Scenario) -> bool:
    """Tell whether windows of a scenario are Spark's, which are answered batch by batch."""
    return scenario.time_model == "spark" and any(one.window is not None for one in scenario.stages)


def has_throttles_batches(scenario: Scenario) -> bool:
    """Tell whether the batches of Spark's windows are those that a throttle admits."""
    return has_batches(scenario) and scenario.system.throttle == BATCH_THROTTLE


def new_batch(job: Job, plan: JobVertex) -> TaskBatch:
    """Return what a task with windows knows of its batch, at the start of a run."""
    window = job.scenario.window_of(plan.stage.name)
    if window is None or not has_batches(job.scenario):
        return TaskBatch()
    return TaskBatch(1, _MODES[window.output], int(len(new_operators(job, plan)) > 0))


def new_store(job: Job) -> WindowStore:
    """Return the store of a task's windows at the start of a run: a query's watermark begins at 0.

    Rows before 1970, or before the start of a run whose times are made, are late from then on.
    """
    return WindowStore(watermark=0) if has_batches(job.scenario) else WindowStore()


def new_operators(job: Job, plan: JobVertex) -> list[WatermarkOperator]:
    """Return the ``withWatermark`` of each input of a stage with windows, a gate each.

    Notes
    -----
    An edge is a stream; the sources that reach it are united before its ``withWatermark``, which
    has their delay. Empty: the sources have no watermark, or the time is Flink's.
    """
    if not has_batches(job.scenario):
        return []
    delays = [delay_ms(job.scenario, link.edge.sender) for link in plan.inputs]
    return [WatermarkOperator(delay) for delay in delays if delay is not None]


def delay_ms(scenario: Scenario, stage: str) -> int | None:
    """Return how far the watermark of a stage's records stays behind, ms; None: they have none.

    That of the sources above it, which is the same for all.
    """
    marks = [source.watermark for source in scenario.sources_of(stage)]
    return max((in_ms(mark.delay_s) for mark in marks if mark is not None), default=None)


def next_batch_end(job: Job, number: int) -> int:
    """Return the next round from ``number`` on before which a batch may end.

    Notes
    -----
    Batches end at multiples of ``batch_s``: before the first round that begins then or later. The
    round may be beyond the job's last one.
    """
    batch_us = job.scenario.batch_us
    if batch_us is None:  # batches are those of a throttle, or micro-batches
        return NEVER if has_throttles_batches(job.scenario) else max(1, number)
    before_us = max(0, number - 1) * job.round_us
    return -(-(before_us // batch_us + 1) * batch_us // job.round_us)
