"""Why a stage that limits is slow: its records, its speed, its processors, a stall, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from flowcontrol.analysis.causes.disturbances import STILL, Disturbances
from flowcontrol.analysis.causes.exchanges import aligned_stage
from flowcontrol.analysis.causes.parts import Parts, capacity_of, demand_of, parts_of, work_of
from flowcontrol.analysis.causes.run import Cause, Run, Times, Word
from flowcontrol.analysis.frames import result_frame
from flowcontrol.analysis.requests import ADVICE as REQUEST_ADVICE
from flowcontrol.analysis.requests import limit_of, limit_sentence, request_figures
from flowcontrol.analysis.subtasks import HOT, edges_into, limiting_subtasks
from flowcontrol.analysis.wording import NAMED, join_words, percent, seconds

LASTING: Final = 0.05
"""Least share of the run for which a cause must limit, as for the bottleneck."""

_OVER: Final = 1.05
"""Demand over capacity from which a stage is too slow even if its records were spread evenly."""

_CLEAR: Final = 0.2
"""Blocked share before a stage from which there is no doubt that it limits."""

_SERVICE: Final = "make the service quicker, or send it less: more subtasks share what it takes"

_IN_FLIGHT: Final = (
    "checkpoint less often, or keep less in flight (taskmanager.network.memory.buffer-debloat)"
)
"""Of a stage without state: a checkpoint has only what is in flight to write."""

ADVICE: Final[dict[Word, str]] = {
    "operator": "give it more parallelism, or make it quicker",
    "key_skew": "spread the hot keys, or aggregate before the shuffle",
    "channel_skew": "send every channel the same, as rebalance does",
    "stall": "look for garbage collections, locks and hanging calls at these times",
    "cpu": "give its task manager more cores, or move tasks to another one",
    "external": "make its calls asynchronous or in batches, or raise the parallelism",
    "checkpoint": "checkpoint less often, make the state smaller or its writing incremental",
    "source": "let it read faster, or spread its log over more partitions",
}


def stage_causes(
    run: Run, stage: str, times: Times, disturbed: Mapping[str, Disturbances]
) -> Iterator[Cause]:
    """Yield why a stage limits.

    ``times`` (s): samples in whose intervals it does.
    """
    if (found := _of_requests(run, stage, times)) is not None:
        yield found
        return
    parts = parts_of(run, stage, times, disturbed)
    least = LASTING * run.total_s
    if run.length(parts.checkpoint) >= least:
        yield _of_checkpoints(run, stage, parts)
    if run.length(parts.aligned) >= least:
        yield aligned_stage(run, stage, parts)
    if run.length(parts.stalled) >= least:
        yield _of_stall(run, stage, parts)
    if run.length(parts.steady) >= least:
        yield from _of_steady(run, stage, parts.steady)


def _of_requests(run: Run, stage: str, times: Times) -> Cause | None:
    """Return the cause of a sink that waits for its requests; None of another stage."""
    own = run.scenario.stage(stage)
    if own.requests is None or "requests" not in run.tables:
        return None
    frame = result_frame(run.tables, "requests")
    rows = frame[(frame["stage"] == stage) & frame["t_s"].isin(times)]
    found = request_figures(rows, run.length(times))
    limit = limit_of(own, found)
    if limit is None:
        return None
    text = f"{limit_sentence(stage, found, limit)} (requests, {run.span(times)})."
    evidence = [text]
    if found["records_retried"]:
        share = percent(found["records_retried"] / found["records_sent"])
        evidence.append(f"{share} of what it sent failed and was sent again.")
    return Cause(
        stage=stage,
        subtask=None,
        cause="external",
        evidence=tuple(evidence),
        confidence=0.9,
        reason="the figures of its requests show what it waits for",
        advice=REQUEST_ADVICE[limit],
        limited_s=run.length(times),
    )


def _of_checkpoints(run: Run, stage: str, parts: Parts) -> Cause:
    own = parts.written
    text = (
        f"While its own part of a checkpoint lasted, {stage} took up {percent(parts.slowed)} less "
        f"than at other times (checkpoint_tasks and stages, {run.span(own)})."
    )
    more = f"It limited for {seconds(run.length(parts.checkpoint))} s then and just after."
    return Cause(
        stage=stage,
        subtask=None,
        cause="checkpoint",
        evidence=(text, more),
        confidence=0.9 if len(own) > 2 else 0.7,
        reason="it is slower whenever a checkpoint works on it, and only then"
        if not parts.steady
        else "it is slower whenever a checkpoint works on it, and at other times too",
        advice=ADVICE["checkpoint"] if _has_state(run, stage) else _IN_FLIGHT,
        limited_s=run.length(parts.checkpoint),
    )


def _has_state(run: Run, stage: str) -> bool:
    """Tell whether a stage writes state for checkpoints, or takes its time to copy some."""
    tasks = run.frame("checkpoint_tasks")
    own = None if tasks is None else tasks[tasks["stage"] == stage]
    return own is not None and bool((own["state_bytes"] > 0).any() or (own["sync_ms"] > 0).any())


def _of_stall(run: Run, stage: str, parts: Parts) -> Cause:
    own = run.scenario.stage(stage)
    only = next(iter(parts.subtasks)) if len(parts.subtasks) == 1 < own.parallelism else None
    who = stage if only is None else f"subtask {only} of {stage}"
    text = (
        f"{who} was busy and took no record up in {len(parts.still)} samples, "
        f"{seconds(run.length(parts.still))} s (stages, {run.span(parts.still)}), and caught up "
        "after."
    )
    machines = {own.placement[subtask] for subtask in parts.subtasks}
    others = _still_beside(run, stage, parts, machines)
    evidence = [text]
    if others:
        noun = "task manager" if len(machines) == 1 else "task managers"
        where = join_words([str(one) for one in sorted(machines)])
        evidence.append(f"So did {join_words(others)} on {noun} {where} at the same times.")
    return Cause(
        stage=stage,
        subtask=only,
        cause="stall",
        evidence=tuple(evidence),
        confidence=0.95 if others else 0.85,
        reason="all tasks of a task manager stood still at once: a garbage collection does that"
        if others
        else "a busy task without any progress waits; the figures do not show for what",
        advice=ADVICE["stall"],
        limited_s=run.length(parts.stalled),
        beside=tuple(others),
    )


def _still_beside(run: Run, stage: str, parts: Parts, machines: set[int]) -> list[str]:
    """Return the other stages on some task managers that stood still at the same times."""
    found = []
    for other in run.scenario.stages:
        there = [i for i, machine in enumerate(other.placement) if machine in machines]
        if other.name == stage or not there:
            continue
        column = "rate_in" if run.scenario.inputs(other.name) else "rate_out"
        rows = run.rows(other.name, parts.still)
        rows = rows[rows["subtask"].isin(there)]
        every = run.of_stage[other.name]
        usual = float(every[every["subtask"].isin(there)][column].median())
        is_still = (rows[column] <= STILL * usual) & (rows["busy_ms_per_s"] >= 500)
        if len(rows) and usual > 0 and is_still.mean() > 0.5:
            found.append(other.name)
    return found


def _of_steady(run: Run, stage: str, times: Times) -> Iterator[Cause]:
    """Yield why a stage is too slow all the time that it limits."""
    limiting = limiting_subtasks(run.tables, run.scenario, stage, times).subtasks
    if run.scenario.stage(stage).reads_log:
        yield _of_reader(run, stage, limiting, times)
        return
    if not limiting:
        yield _slow(run, stage, (), times)
        return
    rates = run.by_subtask(stage, "rate_in", times)
    total = sum(rates.values())
    hottest = max(limiting, key=lambda subtask: rates[subtask])
    of_even = rates[hottest] * len(rates) / total if total > 0 else 0.0
    if of_even < HOT:
        yield _slow(run, stage, limiting, times)
        return
    yield _skewed(run, stage, hottest, times, of_even)
    demand, capacity = demand_of(run, stage, times), capacity_of(run, stage, times)
    if demand > _OVER * capacity > 0:
        yield _slow(run, stage, (), times, beside=(demand, capacity))


def _of_reader(run: Run, stage: str, limiting: Sequence[int], times: Times) -> Cause:
    """Return the cause for a source that reads its log more slowly than it is written."""
    rate = run.total(stage, "rate_out", times)
    lag = run.rows(stage, times).groupby("t_s")["lag_records"].sum().max()
    text = (
        f"{stage} read {rate:,.0f} records/s, was never idle or blocked for long, and {lag:,.0f} "
        f"records waited in its log (stages, {run.span(times)})."
    )
    return Cause(
        stage=stage,
        subtask=limiting[0] if len(limiting) == 1 else None,
        cause="source",
        evidence=(text,),
        confidence=0.95,
        reason="records wait for it, and nothing after it holds it back",
        advice=ADVICE["source"],
        limited_s=run.length(times),
    )


def _slow(
    run: Run,
    stage: str,
    subtasks: Sequence[int],
    times: Times,
    beside: tuple[float, float] | None = None,
) -> Cause:
    """Return the cause for a stage, or a slot of it, that is slow record by record.

    ``beside`` is demand and capacity, records/s, where uneven records hide the speed.
    """
    work = work_of(run, stage, subtasks, times)
    busy = run.by_subtask(stage, "busy_ms_per_s", times)
    own = [busy[one] for one in subtasks or busy]
    share = sum(own) / len(own) / 1000
    only = subtasks[0] if len(subtasks) == 1 else None
    who = f"Subtask {only} of {stage}" if only is not None else stage
    above = [one.sender for one in run.scenario.inputs(stage)]
    blocked = max((run.worst(one, "backpressured_ms_per_s", times) for one in above), default=0.0)
    first = f"{who} was busy {percent(share)} of the time (stages, {run.span(times)})"
    if beside is None:
        evidence = [f"{first}, {_before(run, stage, blocked, times)}."]
    else:
        demand, capacity = beside
        evidence = [
            f"Spread evenly, {stage} could take up {capacity:,.0f} records/s of {demand:,.0f} that "
            f"would come (records over busy time; stages, {run.span(times)})."
        ]
    if subtasks:
        evidence.append(_no_more_than_others(run, stage, subtasks, times))
    if work.sentence:
        evidence.append(work.sentence)
    sure = 0.95 if work.is_measured else 0.85
    if beside is not None:
        sure = min(sure, 0.6 + 0.3 * min(1.0, beside[0] / beside[1] - 1))
    elif blocked < 1000 * _CLEAR and not _is_overrun(run, stage, times):
        sure -= 0.15
    return Cause(
        stage=stage,
        subtask=only,
        cause=work.kind,
        evidence=tuple(evidence),
        confidence=round(sure, 2),
        reason="the scenario says that a service outside sets its rate"
        if run.scenario.stage(stage).external
        else _how_sure(
            work.is_measured, blocked, beside is not None, _is_overrun(run, stage, times)
        ),
        advice=_SERVICE if run.scenario.stage(stage).external else ADVICE[work.kind],
        limited_s=run.length(times),
    )


def _is_overrun(run: Run, stage: str, times: Times) -> bool:
    """Tell whether queues or buffers hold what waits for a stage, most of the time."""
    if run.scenario.system.counts_records:
        return True
    held = [one.t_s for one, _ in run.limits if one.t_s in times and stage in one.overrun]
    return 2 * run.length(held) > run.length(times)


def _before(run: Run, stage: str, blocked: float, times: Times) -> str:
    """Return what a stage did to those that send to it."""
    if blocked >= 1000 * NAMED or run.scenario.system.counts_records:
        return f"while what sends to it was blocked {percent(blocked / 1000)}"
    edges = edges_into(run.scenario, stage)
    rows = run.channels[run.channels["edge"].isin(edges) & run.channels["t_s"].isin(times)]
    waiting = rows.groupby("t_s")["in_flight_records"].sum()
    return (
        f"while buffers held up to {int(waiting.max()):,} records for it, and blocked nobody yet "
        "(channels)"
    )


def _how_sure(is_measured: bool, blocked: float, is_beside: bool, is_overrun: bool) -> str:
    if is_beside:
        return "what would come is worked out from how long its sources were blocked"
    if is_measured:
        return "the load of its processors is measured"
    if blocked < 1000 * _CLEAR and is_overrun:
        return "it is never idle, and more and more waits for it; why it is slow is not measured"
    if blocked < 1000 * _CLEAR:
        return "it is busy, but what sends to it is hardly blocked"
    return "it is busy and holds others up; whether it computes or waits is not measured"


def _no_more_than_others(run: Run, stage: str, subtasks: Sequence[int], times: Times) -> str:
    rates, busy = (run.by_subtask(stage, c, times) for c in ("rate_in", "busy_ms_per_s"))
    rest = [one for one in rates if one not in subtasks]
    own, others = (sum(rates[i] for i in group) / len(group) for group in (subtasks, rest))
    idle = sum(busy[i] for i in rest) / len(rest) / 1000
    return (
        f"It took up {own:,.0f} records/s, the others {others:,.0f} each, busy {percent(idle)}: "
        "it is slower, it has no more to do."
    )


def _skewed(run: Run, stage: str, hottest: int, times: Times, of_even: float) -> Cause:
    """Return the cause for a stage of which one subtask gets too many records."""
    rates, busy = (run.by_subtask(stage, c, times) for c in ("rate_in", "busy_ms_per_s"))
    rest = [busy[one] for one in busy if one != hottest]
    share = rates[hottest] / sum(rates.values())
    text = (
        f"Subtask {hottest} of {stage} took up {percent(share)} of its records, {of_even:.1f} "
        f"times an even share, and was busy {percent(busy[hottest] / 1000)}; the others "
        f"{percent(sum(rest) / len(rest) / 1000)} (stages, {run.span(times)})."
    )
    origin, is_keyed = _origin(run, stage)
    how = "by the hash of a key" if is_keyed else "unevenly over its channels"
    evidence = [text, f"Records come over {origin}, {how}.", *_state(run, stage, hottest)]
    return Cause(
        stage=stage,
        subtask=hottest,
        cause="key_skew" if is_keyed else "channel_skew",
        evidence=tuple(evidence),
        confidence=round(min(0.95, 0.7 + 0.25 * (of_even - 1)), 2),
        reason=f"it is busy for it has {of_even:.1f} times an even share of the records",
        advice=ADVICE["key_skew" if is_keyed else "channel_skew"],
        limited_s=run.length(times),
    )


def _origin(run: Run, stage: str) -> tuple[str, bool]:
    """Return the edge on which records become uneven, and whether keys do that.

    What a forward edge brings was uneven before.
    """
    scenario = run.scenario
    edges = scenario.inputs(stage)
    keyed = [one for one in edges if one.partitioner == "hash"]
    if keyed:
        return keyed[0].name, True
    for one in edges:
        if one.partitioner == "forward" and scenario.inputs(one.sender):
            return _origin(run, one.sender)
    return edges[0].name, False


def _state(run: Run, stage: str, hottest: int) -> Iterator[str]:
    """Yield how large the state of the hot subtask is beside that of the others."""
    tasks = run.frame("checkpoint_tasks")
    if tasks is not None:
        own = tasks[tasks["stage"] == stage].groupby("subtask")["state_bytes"].max()
        yield from _larger(own.to_dict(), hottest, "checkpoint_tasks")
    times = run.frame("time")
    if times is not None:
        own = times[times["stage"] == stage].groupby("subtask")["window_state_bytes"].max()
        yield from _larger(own.to_dict(), hottest, "time")


def _larger(found: Mapping[Any, float], hottest: int, table: str) -> Iterator[str]:
    sizes = {int(subtask): float(size) for subtask, size in found.items()}
    rest = [size for subtask, size in sizes.items() if subtask != hottest]
    mean = sum(rest) / len(rest) if rest else 0.0
    if hottest in sizes and mean > 0 and sizes[hottest] >= HOT * mean:
        times = sizes[hottest] / mean
        yield f"Its state was {times:.1f} times as large as that of the others ({table})."
