"""What no clock runs yet, or only one, of checkpoints, failures and event time: a line each.

Whoever makes a clock run one of them takes its line out, or leaves the clock that does not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from flowcontrol.scenario.models import Scenario
from flowcontrol.scenario.partitions import SPILLING
from flowcontrol.scenario.problems import key_path
from flowcontrol.scenario.scaling_checks import scaling_refusals
from flowcontrol.scenario.stage_models import Stage

Where = Literal["any", "live", "virtual"]
"""The clock that does not run something; ``any``: neither does."""

Refusal = tuple[str, str, str]
"""Place, what is not emulated there (value first, verb last), and what to do instead."""

_LATENCY = "metrics.latency.interval"
_MODE = "execution.runtime-mode"
_MAX_PARALLELISM = "pipeline.max-parallelism"
_EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"


@dataclass(frozen=True)
class Later:
    """Something that is not emulated yet."""

    key: str  # Its name in this table
    where: Where  # The clock that does not run it
    # Given a scenario, yields a refusal for each place that asks for it.
    find: Callable[[Scenario], Iterator[Refusal]]


def later_refusals(scenario: Scenario, clock: str) -> Iterator[tuple[Where, Refusal]]:
    """Yield what a scenario asks for and a clock does not run yet.

    ``clock``: the clock to run it, ``live`` or ``virtual``.

    Yields ``any`` or the clock, and the refusal.
    """
    for line in LATER:
        if line.where in {"any", clock}:
            for refusal in line.find(scenario):
                yield line.where, refusal


def _throttles(scenario: Scenario) -> Iterator[Refusal]:
    """What a controller that goes on makes of sources that fail and go back is not modelled."""
    throttle = scenario.system.throttle
    if scenario.failures and throttle != "none":
        what = f"{throttle!r}: failures beside a throttle are"
        yield "system.throttle", what, "use none, or leave the failures out"


def _partition_types(scenario: Scenario) -> Iterator[Refusal]:
    for index, edge in enumerate(scenario.edges):
        if scenario.failures and edge.partition_type in SPILLING:
            what = f"{edge.partition_type!r}: failures over partitions on disk are"
            yield f"edges[{index}].partition_type", what, "use pipelined_bounded"


def _exclusive_buffers(scenario: Scenario) -> Iterator[Refusal]:
    """A barrier takes the credit of a channel that has no buffers of its own (section 1.8)."""
    if scenario.checkpointing is not None and scenario.options.exclusive_buffers == 0:
        what = "0: checkpoints without exclusive buffers are"
        yield key_path(["options", _EXCLUSIVE]), what, "state 1 or more"


def _jobs(scenario: Scenario) -> Iterator[Refusal]:
    if scenario.is_fault_tolerant and scenario.jobs:
        names = ", ".join(job.name for job in scenario.jobs)
        what = f"{names}: checkpoints and failures of several jobs are"
        yield "jobs", what, "state stages and edges in their place"


def _spark_time(scenario: Scenario) -> Iterator[Refusal]:
    """When a record fell due at a throttle is not in the ledgers."""
    throttle = scenario.system.throttle
    if scenario.has_stamps and scenario.time_model == "spark" and throttle != "none":
        what = f"{throttle!r}: Spark's event time beside a throttle is"
        yield "system.throttle", what, "use none, or time_model: flink"


def _spark_windows_in_a_row(scenario: Scenario) -> Iterator[Refusal]:
    """A batch of one would have to end where that of the other does."""
    for index, stage in enumerate(scenario.stages):
        if scenario.time_model != "spark" or stage.window is None:
            continue
        above = map(scenario.stage, scenario.upstream(stage.name))
        first = next((one.name for one in above if one.window is not None), None)
        if first is not None:
            what = f"{stage.name!r} behind that of {first!r}: Spark's windows in a row are"
            yield f"stages[{index}].window", what, "keep one of them, or use time_model: flink"


def _spark_watermarks(scenario: Scenario) -> Iterator[Refusal]:
    """A record does not say which source it comes from, behind a stage that two have reached."""
    windows = [stage for stage in scenario.stages if stage.window is not None]
    if scenario.time_model != "spark":
        return
    for stage in windows:
        edges = [scenario.sources_of(edge.sender) for edge in scenario.inputs(stage.name)]
        for sources in edges:
            yield from _other_delays(scenario, sources)
        firsts = [sources[0] for sources in edges]
        missing = [one for one in firsts if one.watermark is None]
        if missing and len(missing) < len(firsts):
            with_one = next(one.name for one in firsts if one.watermark is not None)
            index = scenario.stages.index(missing[0])
            what = f"missing, while {with_one!r} has one: such a source of Spark's windows is"
            yield f"stages[{index}].watermark", what, "state one, or none in either"


def _spark_and_faults(scenario: Scenario) -> Iterator[Refusal]:
    """A cut has no groups of a batch under way, and no query goes on from its checkpoint."""
    is_sparks = scenario.has_stamps and scenario.time_model == "spark"
    there = {"checkpoints": scenario.checkpointing is not None, "failures": scenario.failures}
    for name, is_there in there.items():
        if is_sparks and is_there:
            what = f"'spark': Spark's event time beside {name} is"
            yield "time_model", what, f"use flink, or leave the {name} out"


def _other_delays(scenario: Scenario, sources: Sequence[Stage]) -> Iterator[Refusal]:
    delays = [None if one.watermark is None else one.watermark.delay_s for one in sources]
    for source, delay in zip(sources, delays, strict=True):
        if delay != delays[0]:
            shown = ["none" if one is None else f"{float(one):g}" for one in (delay, delays[0])]
            what = f"{shown[0]}, that of {sources[0].name!r} is {shown[1]}: other delays of sources"
            what = f"{what} that meet before a window of Spark's are"
            place = f"stages[{scenario.stages.index(source)}].watermark"
            yield place if delay is None else f"{place}.delay_s", what, "state the same"


def _markers_and(scenario: Scenario) -> Iterator[Refusal]:
    """Yield what latency markers are refused beside: they ride where watermarks ride."""
    interval_us, system = scenario.options.latency_interval_us, scenario.system
    if not interval_us:
        return
    place, others = key_path(["options", _LATENCY]), list[tuple[str, str]]()
    if system.counts_records or system.transport == "tcp":
        others.append((f"the transport {system.transport}", "use credit"))
    if system.throttle != "none":
        others.append((f"the throttle {system.throttle}", "use none"))
    if any(edge.partition_type in SPILLING for edge in scenario.edges):
        others.append(("partitions on disk", "use pipelined_bounded"))
    if scenario.checkpointing is not None:
        others.append(("checkpoints", "leave these out"))
    if scenario.failures:
        others.append(("failures", "leave these out"))
    if scenario.jobs:
        others.append(("several jobs", "state stages and edges"))
    for what, remedy in others:
        text = f"{interval_us // 1000} ms: latency markers beside {what} are"
        yield place, text, f"{remedy}, or write 0"


def _readers_of_windows(scenario: Scenario) -> Iterator[Refusal]:
    """After a restart windows may put out other results: which come again is not known."""
    for index, stage in enumerate(scenario.stages):
        if not scenario.failures or stage.guarantee == "at-least-once":
            continue
        if any(scenario.stage(name).window for name in scenario.upstream(stage.name)):
            what = f"{stage.guarantee!r}: what readers see of windows beside failures is"
            yield f"stages[{index}].guarantee", what, "leave it, or the failures, out"


def _transactions_of_windows(scenario: Scenario) -> Iterator[Refusal]:
    """Files of results are visible at once: the driver writes them, and no checkpoint waits."""
    for index, stage in enumerate(scenario.stages):
        head = stage
        while chained := [edge.sender for edge in scenario.inputs(head.name) if edge.chain]:
            head = scenario.stage(chained[0])
        if head.window is not None and stage.guarantee == "exactly-once":
            what = f"'exactly-once': results of {head.name!r} in transactions of checkpoints are"
            instead = "leave it out, or add a sink that has it and is not chained"
            yield f"stages[{index}].guarantee", what, instead


def _event_time_and_transport(scenario: Scenario) -> Iterator[Refusal]:
    """No watermark is put among records that a transport counts, or aside behind a barrier.

    Spark's travel in no channel.
    """
    transport = scenario.system.transport
    is_refused = scenario.system.counts_records and scenario.time_model != "spark"
    if scenario.has_stamps and (is_refused or transport == "tcp"):
        what = f"{transport!r}: event time without credits of buffers is"
        yield "system.transport", what, "use credit, or leave event_time out"


def _event_time_and_throttle(scenario: Scenario) -> Iterator[Refusal]:
    """No generator is probed at a source that is throttled; Spark's time has none."""
    throttle = scenario.system.throttle
    if scenario.has_stamps and throttle != "none" and scenario.time_model != "spark":
        what = f"{throttle!r}: event time beside a throttle is"
        yield "system.throttle", what, "use none, or leave event_time out"


def _event_time_and_disks(scenario: Scenario) -> Iterator[Refusal]:
    for index, edge in enumerate(scenario.edges):
        if scenario.has_stamps and edge.partition_type in SPILLING:
            what = f"{edge.partition_type!r}: event time over partitions on disk is"
            yield f"edges[{index}].partition_type", what, "use pipelined_bounded"


def _event_time_and_jobs(scenario: Scenario) -> Iterator[Refusal]:
    if scenario.jobs and scenario.has_stamps:
        names = ", ".join(job.name for job in scenario.jobs)
        what = f"{names}: event time and windows of several jobs are"
        yield "jobs", what, "state stages and edges in their place"


def _drawn_in(scenario: Scenario) -> Iterator[Refusal]:
    """Sources that an operator draws into its task: a task has one input of each stage here."""
    for index, one in enumerate(scenario.operators):
        inputs = scenario.inputs(one.name)
        if one.chaining == "head-with-sources" and len(inputs) > 1:
            what = f"'head-with-sources': drawing one of {len(inputs)} inputs into the task is"
            yield f"stages[{index}].chaining", what, "use always"


def _batch_jobs(scenario: Scenario) -> Iterator[Refusal]:
    """Results that are blocking without being stated, and slots that regions take in turn."""
    if scenario.is_batch:
        what = "'batch': batch jobs are"
        yield key_path(["options", _MODE]), what, "state the partition_type of edges instead"


def _key_groups(scenario: Scenario) -> Iterator[Refusal]:
    """Keys go by Flink's default number of key groups."""
    stated = {one.name: one.max_parallelism for one in scenario.operators}
    job = scenario.options.max_parallelism
    for edge in scenario.edges:
        most = stated.get(edge.receiver)
        what = "key groups of a number of one's own under hash are"
        if edge.partitioner == "hash" and most is not None:
            index = [one.name for one in scenario.operators].index(edge.receiver)
            yield f"stages[{index}].max_parallelism", f"{most}: {what}", "leave it out"
        elif edge.partitioner == "hash" and job is not None:
            yield key_path(["options", _MAX_PARALLELISM]), f"{job}: {what}", "leave it out"


def _control_latency(scenario: Scenario) -> Iterator[Refusal]:
    """Others than Flink register and deploy otherwise, and a job that starts later has its own."""
    cluster, system = scenario.cluster, scenario.system
    if not cluster.control_latency_us:
        return
    place, shown = "cluster.control_latency_ms", f"{cluster.control_latency_ms:g} ms"
    if scenario.jobs:
        yield place, f"{shown}: the control plane of several jobs is", "state stages and edges"
    elif system.counts_records:
        what = f"{shown} with the transport {system.transport}: its control plane is"
        yield place, what, "use flink, or leave it out"
    elif system.throttle != "none":
        what = f"{shown} with the throttle {system.throttle}: a start that takes time is"
        yield place, what, "use none, or leave it out"


def _live_scaling(scenario: Scenario) -> Iterator[Refusal]:
    """Queries of another parallelism would have to go on from the ledgers of the ones before."""
    if scenario.scaling is not None and next(scaling_refusals(scenario), None) is None:
        what = f"{scenario.scaling.policy!r}: scaling is"
        yield "scaling", what, "use the virtual clock, or leave it out"


LATER: Final = (
    Later("scaling", "any", scaling_refusals),
    Later("scaling on the live clock", "live", _live_scaling),
    Later("sources drawn in", "any", _drawn_in),
    Later("batch jobs", "any", _batch_jobs),
    Later("key groups", "any", _key_groups),
    Later("control latency", "any", _control_latency),
    Later("throttles", "any", _throttles),
    Later("partition types", "any", _partition_types),
    Later("exclusive buffers", "any", _exclusive_buffers),
    Later("jobs", "any", _jobs),
    Later("spark's event time", "live", _spark_time),
    Later("spark's windows in a row", "any", _spark_windows_in_a_row),
    Later("spark's watermarks", "any", _spark_watermarks),
    Later("spark's event time and checkpoints", "any", _spark_and_faults),
    Later("latency markers and others", "any", _markers_and),
    Later("readers of windows", "any", _readers_of_windows),
    Later("transactions of windows", "live", _transactions_of_windows),
    Later("event time and jobs", "any", _event_time_and_jobs),
    Later("event time and transports", "any", _event_time_and_transport),
    Later("event time and throttles", "any", _event_time_and_throttle),
    Later("event time and disks", "any", _event_time_and_disks),
)
"""The lines."""
