"""The rules of thumb that say which changes to try; nothing is advice until it was run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.checkpoint_causes import timer_windows
from flowcontrol.experiments.advise.result import Change, KeyPath, Subject
from flowcontrol.experiments.advise.sinks import commit_changes, request_changes
from flowcontrol.graphs.stream import PARTITIONERS
from flowcontrol.report.markup import milliseconds, percent

if TYPE_CHECKING:
    from flowcontrol.scenario import Edge, Scenario, Stage


# --- Changes of stages and edges that may help: how many subtasks, where, and which records.


MOST_PARALLELISM: Final = 1024
"""Subtasks of a stage that are proposed at most."""

_TARGET: Final = 0.8
"""Busy share that a new parallelism aims at, so that a stage does not limit at once again."""

_BUSY: Final = 0.7
"""Busy share from which more subtasks of a stage are tried."""

_IDLE: Final = 0.4
"""Busy share below which fewer subtasks are tried."""

_MOST_HELD: Final = 0.95
"""Blocked share of a source beyond which nobody can tell how much more it would emit."""


def parallelism_changes(subject: Subject) -> Iterator[Change]:
    """More subtasks where they are busy, fewer where they are not."""
    scenario, seen = subject.scenario, subject.seen
    for stage in scenario.stages:
        if stage.is_source or stage.external:
            continue  # it would have more to do, or shares what a service takes
        p, busy = stage.parallelism, seen.busiest[stage.name]
        if stage.name == seen.limits or busy > _BUSY:
            offered = 1 / (1 - min(seen.held_back, _MOST_HELD))
            needed = ceil(p * busy * offered / _TARGET)
            for count in sorted({p + 1, 2 * p, needed}):
                if p < count <= MOST_PARALLELISM:
                    yield _subtasks(
                        subject,
                        stage,
                        count,
                        f"its busiest subtask is busy {percent(busy)} of the time",
                    )
        elif p > 1 and busy < _IDLE:
            count = max(1, ceil(p * busy / _BUSY))
            yield _subtasks(
                subject,
                stage,
                count,
                f"its busiest subtask is busy only {percent(busy)} of the time",
            )


def _subtasks(subject: Subject, stage: Stage, count: int, why: str) -> Change:
    name = f"{count} subtask{'s' * (count != 1)} of {stage.name} instead of {stage.parallelism}"
    parallelism = subject.path(stage.name, "parallelism"), count
    keys = (parallelism, *_rates(subject, stage, count), *_places(subject, stage, count))
    keys += tuple(_not_forward(subject.scenario, stage))
    keyed = any(edge.partitioner == "hash" for edge in subject.scenario.inputs(stage.name))
    cautions = ["A hot key stays on one subtask."] if keyed else []
    if subject.stated(stage.name, "total_rate") is not None:
        cautions.append("Each subtask is taken to be as fast as now.")
    return Change("parallelism", name, keys, why, tuple(cautions))


def _rates(subject: Subject, stage: Stage, count: int) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the rates of another number of subtasks, where the file has more than one of all.

    A subtask keeps its rate, and a new one has the most frequent.
    """
    rates, total = (subject.stated(stage.name, key) for key in ("service_rate", "total_rate"))
    if total is not None:
        share = count / stage.parallelism
        yield subject.path(stage.name, "total_rate"), _scaled(total, share)
    elif isinstance(rates, list) and stage.service_rate is not None and not _is_schedule(rates):
        usual, _ = Counter(stage.service_rate).most_common(1)[0]
        more = rates[stage.service_rate.index(usual)]
        kept = rates[:count]
        yield subject.path(stage.name, "service_rate"), kept + [more] * (count - len(kept))


def _scaled(total: Any, share: float) -> Any:
    """Return a total rate, or the schedule of one, times a share."""
    if isinstance(total, list):
        return [{**phase, "rate": phase["rate"] * share} for phase in total]
    return total * share


def _places(subject: Subject, stage: Stage, count: int) -> Iterator[tuple[KeyPath, Any]]:
    """Yield where another number of subtasks are, if the file states it: new ones go on in turn."""
    if subject.stated(stage.name, "placement") is not None:
        managers, kept = subject.scenario.cluster.task_managers, list(stage.placement[:count])
        new = [(kept[0] + index) % managers for index in range(len(kept), count)]
        yield subject.path(stage.name, "placement"), kept + new


def _not_forward(scenario: Scenario, stage: Stage) -> Iterator[tuple[KeyPath, Any]]:
    """Yield another partitioner for edges that need equal parallelism, as Flink chooses it."""
    for index, edge in enumerate(scenario.edges):
        if stage.name in {edge.sender, edge.receiver} and edge.partitioner == "forward":
            yield ("edges", index, "partitioner"), "rebalance"


def _is_schedule(rates: list[Any]) -> bool:
    """Tell whether a list is one schedule for all subtasks."""
    return all(isinstance(rate, dict) for rate in rates)


def partitioner_changes(subject: Subject) -> Iterator[Change]:
    """Another way to spread records over an edge, where the edge has one to choose."""
    scenario = subject.scenario
    for index, edge in enumerate(scenario.edges):
        for partitioner, why, cautions in _others(scenario, edge):
            name = f"{edge.name} by {partitioner} instead of {edge.partitioner}"
            keys = ((("edges", index, "partitioner"), partitioner), *_without(index, edge))
            yield Change("partitioner", name, keys, why, cautions)


def _others(scenario: Scenario, edge: Edge) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    if edge.chain or edge.partitioner not in PARTITIONERS:
        return
    sender, receiver = scenario.stage(edge.sender), scenario.stage(edge.receiver)
    if edge.partitioner == "hash":
        if receiver.window is None and receiver.state is None:
            yield (
                "rebalance", "every subtask gets as many records",
                ("Only if the receiver does not need the records of a key together.",),
            )  # fmt: skip
    elif edge.partitioner in {"rescale", "forward"}:
        yield "rebalance", "every subtask gets as many records", ()
    elif edge.partitioner in {"rebalance", "shuffle"}:
        even = sender.parallelism % receiver.parallelism == 0
        if even or receiver.parallelism % sender.parallelism == 0:
            yield "rescale", "fewer channels, so more buffers each or less memory", ()


def _without(index: int, edge: Edge) -> Iterator[tuple[KeyPath, Any]]:
    """Yield what takes away what only the old partitioner had."""
    for key in ("key_weights", "key_distribution", "channel_weights"):
        if getattr(edge, key, None):
            yield ("edges", index, key), None


def placement_changes(subject: Subject) -> Iterator[Change]:
    """The stage that limits on a task manager of its own; a receiver beside its sender."""
    scenario, seen = subject.scenario, subject.seen
    if scenario.operators or scenario.jobs:
        return
    limits = seen.limits
    if limits is not None:
        stage = scenario.stage(limits)
        others = {m for s in scenario.stages if s.name != limits for m in s.placement}
        if others & set(stage.placement):
            new = scenario.cluster.task_managers
            path = subject.path(limits, "placement")
            keys = ((("cluster", "task_managers"), new + 1), (path, [new] * stage.parallelism))
            name = f"{limits} on a task manager of its own"
            yield Change("placement", name, keys, "others share its task managers")
    managers = scenario.cluster.task_managers
    together = {s.name: [i % managers for i in range(s.parallelism)] for s in scenario.stages}
    moved = [s for s in scenario.stages if list(s.placement) != together[s.name]]
    if moved:
        own = ((subject.path(s.name, "placement"), together[s.name]) for s in moved)
        name = "subtasks of the same number on one task manager"
        yield Change("placement", name, tuple(own), "as slot sharing places them")
    for edge in scenario.edges:
        sender, receiver = scenario.stage(edge.sender), scenario.stage(edge.receiver)
        is_even = sender.parallelism == receiver.parallelism
        if is_even and sender.placement != receiver.placement:
            path = subject.path(receiver.name, "placement")
            name = f"{receiver.name} on the task managers of {sender.name}"
            why = "what stays on a task manager crosses no network"
            yield Change("placement", name, ((path, list(sender.placement)),), why)


def slot_changes(subject: Subject) -> Iterator[Change]:
    """An operator that limits in slots of its own."""
    scenario, seen = subject.scenario, subject.seen
    if scenario.operators and seen.limits is not None:
        path = subject.path(seen.limits, "slot_group")
        name = f"a slot sharing group of its own for {seen.limits}"
        why = "it then shares no slot"
        yield Change("slots", name, ((path, f"{seen.limits}-own"),), why)


# --- Changes of Flink's options, and of the flow control itself, that may help.


_MEMORY: Final = "taskmanager.network.memory."
_CHECKPOINT: Final = "execution.checkpointing."
_SEGMENT: Final = "taskmanager.memory.segment-size"
_TIMEOUT: Final = "execution.buffer-timeout.interval"
_LEAST_SEGMENT: Final = 4096
"""Bytes of the smallest segment that Flink takes."""

_MS: Final = 1000
"""Microseconds."""


def buffer_changes(subject: Subject) -> Iterator[Change]:
    """Twice and half the buffers of each kind, and twice and half their size."""
    scenario = subject.scenario
    if scenario.system.counts_records:
        return
    options = scenario.options
    own: Sequence[tuple[str, str, str, int, int]] = (
        ("exclusive buffer{}", "exclusive", "buffers-per-channel", options.exclusive_buffers, 0),
        ("floating buffer{}", "floating", "floating-buffers-per-gate", options.floating_buffers, 1),
        ("buffer{} a subpartition", "quota", "max-buffers-per-channel",
         options.max_buffers_per_channel, 1),
    )  # fmt: skip
    for noun, kind, key, now, least in own:
        for count in (2 * now or 2, now // 2):
            if count >= least and count != now:
                more = "more in flight" if count > now else "less in flight"
                name = f"{count} {noun.format('s' * (count != 1))} instead of {now}"
                yield Change(kind, name, (_option(_MEMORY + key, count),), more)
    now = options.segment_bytes
    for size in (2 * now, now // 2):
        if size >= _LEAST_SEGMENT:
            name = f"segments of {size // 1024} KiB instead of {now // 1024}"
            why = "fewer, larger buffers" if size > now else "buffers that fill sooner"
            yield Change("segment", name, (_option(_SEGMENT, size),), why)
    if not options.debloat_enabled and not scenario.jobs:
        key = _MEMORY + "buffer-debloat.enabled"
        why = "as much in flight as its target takes to consume"
        yield Change("debloating", "buffer debloating", (_option(key, True),), why)


def timeout_changes(subject: Subject) -> Iterator[Change]:
    """A flusher that runs ten times as often, and a tenth as often."""
    scenario = subject.scenario
    now = scenario.options.flush_interval_us
    if scenario.system.counts_records or now <= 0:
        return
    for value in (now // 10 // _MS * _MS, now * 10):  # whole milliseconds, as it is written
        if value >= _MS:
            why = "records leave sooner" if value < now else "buffers leave fuller"
            name = f"a buffer timeout of {_time(value)} instead of {_time(now)}"
            yield Change("timeout", name, (_option(_TIMEOUT, f"{value // _MS}ms"),), why)


def checkpoint_changes(subject: Subject) -> Iterator[Change]:
    """Barriers that overtake, and fewer checkpoints."""
    scenario = subject.scenario
    own = scenario.checkpointing
    if own is None or own.interval_us is None:
        return
    if own.mode == "exactly_once" and not own.is_unaligned:
        key = _option(_CHECKPOINT + "unaligned.enabled", True)
        why = "barriers overtake what waits before them"
        cautions = ["What they overtake is written with the checkpoint."]
        if timer_windows(scenario):
            cautions.append("They wait behind a window that fires into full outputs.")
        yield Change("unaligned", "unaligned checkpoints", (key,), why, tuple(cautions))
    if own.mode == "exactly_once" and timer_windows(scenario) and not own.interrupts_timers:
        names = ("unaligned.enabled", "unaligned.interruptible-timers.enabled")
        keys = tuple(_option(_CHECKPOINT + name, True) for name in names)
        name = "unaligned checkpoints with interruptible timers"
        why = "barriers pass between two timers of a window that fires"
        caution = "Flink 1.20 and later; windows of the DataStream API ignore it."
        yield Change("interruptible", name, keys, why, (caution,))
    twice = 2 * own.interval_us
    name = f"a checkpoint every {_time(twice)} instead of {_time(own.interval_us)}"
    caution = "A failure costs up to twice as many records again."
    keys = (_option(_CHECKPOINT + "interval", f"{twice // _MS}ms"),)
    yield Change("interval", name, keys, "fewer checkpoints", (caution,))


def batch_changes(subject: Subject) -> Iterator[Change]:
    """Larger and smaller batches, where a source has a most of them."""
    system = subject.scenario.system
    now = int(system.throttle_values.get("max_records", 0))
    if system.throttle != "static_admission" or now == 0:
        return
    for most in (2 * now, 4 * now, now // 2):
        if most > 0:
            name = f"batches of at most {most:,} records instead of {now:,}"
            why = "what a batch costs beside them is shared by more" if most > now else "shorter"
            yield Change("batches", name, ((("system", "throttle", "max_records"), most),), why)


def system_changes(subject: Subject) -> Iterator[Change]:
    """Credits, where there are none yet."""
    scenario = subject.scenario
    if scenario.system.transport == "tcp" and scenario.system.throttle == "none":
        why = "a slow channel no longer holds up the others of its connection"
        yield Change("system", "credit-based flow control", ((("system",), "flink"),), why)


def _option(key: str, value: Any) -> tuple[KeyPath, Any]:
    return ("options", key), value


def _time(length_us: int) -> str:
    return milliseconds(length_us / _MS)


# --- All rules of thumb that say which changes to try; none is advice until it was run.


Rule = Callable[[Subject], Iterator[Change]]
"""Yields changes that one thing suggests."""

RULES: Final[tuple[Rule, ...]] = (
    parallelism_changes,
    partitioner_changes,
    placement_changes,
    slot_changes,
    request_changes,
    commit_changes,
    batch_changes,
    buffer_changes,
    timeout_changes,
    checkpoint_changes,
    system_changes,
)


def changes_of(subject: Subject, rules: Sequence[Rule] = RULES) -> list[Change]:
    """Return the changes to try, in a fixed order, none twice."""
    found = [change for rule in rules for change in rule(subject)]
    return list({change.text: change for change in reversed(found)}.values())[::-1]
