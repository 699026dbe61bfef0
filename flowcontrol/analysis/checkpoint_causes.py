"""Why checkpoints are slow or large: the slowest subtask, its parts, windows that fire or lag."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.frames import Tables, mean_over_time, result_frame
from flowcontrol.scenario import Edge, Scenario

if TYPE_CHECKING:
    import pandas as pd


PARTS: Final = ("start_delay_ms", "alignment_ms", "sync_ms", "async_ms")
"""Parts of a subtask's time, in the order in which they pass."""


def slowest_subtask(tasks: pd.DataFrame) -> dict[str, Any] | None:
    """Return who most often acknowledged last, and its time by parts, mean over those times.

    ``tasks``: the subtasks that acknowledged, as of ``task_frame``.

    Returns ``stage``, ``subtask``, ``part`` (the longest), ``checkpoints`` (how often it was last),
    ``e2e_ms`` and each of ``PARTS``; None without any row.
    """
    last = _last_of_each(tasks)
    if last.empty:
        return None
    owners = last.groupby(["stage", "subtask"])["e2e_ms"].agg(["count", "sum"])
    stage, subtask = owners.sort_values(["count", "sum"]).index[-1]
    rows = last[(last["stage"] == stage) & (last["subtask"] == subtask)]
    parts = {name: float(rows[name].mean()) for name in PARTS}
    return {
        "stage": str(stage),
        "subtask": int(subtask),
        "part": max(parts, key=lambda name: parts[name]).removesuffix("_ms"),
        "checkpoints": len(rows),
        "e2e_ms": float(rows["e2e_ms"].mean()),
        **parts,
    }


def _last_of_each(tasks: pd.DataFrame) -> pd.DataFrame:
    """Return the row of the subtask that acknowledged last, of each checkpoint."""
    ordered = tasks.sort_values(["checkpoint_id", "e2e_ms"], kind="stable")
    return ordered.drop_duplicates("checkpoint_id", keep="last")


DOMINANT: Final = 0.5
"""Share of the slowest subtask's time from which a part of it is the cause."""

SLOW: Final = 0.1
"""Share of the interval from which a checkpoint is slow enough for a cause to be named."""

_LEAST_MS: Final = 100.0
"""A checkpoint that took less is not slow, however short the interval: rounds add up too."""

_WITHOUT_INTERVAL_MS: Final = 1000.0
"""The same for a job that takes savepoints only."""

_LATE: Final = 0.5
"""Share of the alignment by which one sender's barrier must be later than all others'."""

_FULLER: Final = 2.0
"""Times the mean of the other channels that the fullest one must hold to be named."""

_ROUNDING_MS: Final = 1.0

_SECOND: Final = 0.2
"""Share of the slowest subtask's time from which another part of it is named as well."""

_ROUNDS_OF_A_MESSAGE: Final = 2
"""Trigger, barriers and acknowledgement take up to two rounds each: one on their way, one to be
noticed."""


def find_cause(
    done: pd.DataFrame,
    tasks: pd.DataFrame,
    tables: Tables,
    scenario: Scenario,
    round_ms: float = 0.0,
) -> dict[str, Any] | None:
    """Return what makes checkpoints slow; None if all are quick or nothing dominates.

    ``round_ms`` (ms): length of a round.

    Returns ``kind``: ``in_flight`` (the barriers were long on their way), ``channel`` (one
    channel's was, long after the others), ``upload`` (the asynchronous part), ``sync``; ``slow``,
    how many checkpoints are; ``stage``, ``subtask``, ``last``, ``e2e_ms``, who most often
    acknowledged them last and when; the figures that show the cause; ``second`` and ``second_ms``,
    another part that took long, if one did; ``firing``, the window behind whose timers the barriers
    waited, if they did; ``others_ms``, when the other subtasks of the stage acknowledged, if much
    earlier.
    """
    done = done[done["e2e_ms"] > _slow_ms(scenario, round_ms)]
    tasks = tasks[tasks["checkpoint_id"].isin(done["checkpoint_id"])]
    slowest = slowest_subtask(tasks)
    if slowest is None:
        return None
    parts = {
        "sync": slowest["sync_ms"],
        "upload": slowest["async_ms"],
        "in_flight": slowest["start_delay_ms"] + slowest["alignment_ms"],
    }
    kind, other = sorted(parts, key=lambda name: parts[name], reverse=True)[:2]
    total = slowest["e2e_ms"]
    if parts[kind] <= DOMINANT * total:
        return None
    who = {"stage": slowest["stage"], "subtask": slowest["subtask"]}
    shown = {"kind": kind, "slow": len(done), **who, "last": slowest["checkpoints"]}
    shown |= {"e2e_ms": total, "part_ms": parts[kind]}
    if parts[other] > _SECOND * total:
        shown |= {"second": other, "second_ms": parts[other]}
    if kind == "upload":
        own = _rows_of(tasks, who)
        shown["bytes"] = float((own["state_bytes"] + own["persisted_bytes"]).mean())
    if kind != "in_flight":
        return shown | _earlier(who, total, tasks)
    last = _last_channel(slowest, done, tasks, tables, scenario)
    shown |= {"kind": "channel", **last} if last else _earlier(who, total, tasks)
    shown["alignment_ms"] = slowest["alignment_ms"]
    shown["overtaken"] = bool(done["is_unaligned"].mean() > DOMINANT)
    firing = firing_window(tables, scenario, slowest["stage"], _spans(done))
    if firing is not None:
        shown["firing"] = firing
    return shown | _longest_hop(slowest["stage"], done, tasks, tables, scenario)


def _spans(checkpoints: pd.DataFrame) -> list[tuple[float, float]]:
    return list(zip(checkpoints["triggered_s"], checkpoints["ended_s"], strict=True))


def find_late(
    checkpoints: pd.DataFrame, tasks: pd.DataFrame, tables: Tables, scenario: Scenario
) -> dict[str, Any] | None:
    """Return the stage that most often had not acknowledged an expired checkpoint.

    Returns ``stage``, most often the first in the order of the graph that was late;
    ``checkpoints``, of how many; ``in_flight_records`` at the trigger on all edges on the way to
    it, and ``rate_in``, what it took up until they expired, means. None if nothing expired, or it
    is not known who was late.
    """
    expired = checkpoints[checkpoints["status"] == "expired"]
    missing: dict[str, list[int]] = {}
    ends = tasks["checkpoint_id"].map(expired.set_index("checkpoint_id")["ended_s"])
    in_time = tasks[tasks["acknowledged_s"] <= ends]
    present = in_time.groupby(["checkpoint_id", "stage"]).size().to_dict()
    for row in expired.to_dict("records"):
        absent = {
            one.name: one.parallelism - present.get((row["checkpoint_id"], one.name), 0)
            for one in scenario.stages
        }
        if sum(absent.values()) != row["subtasks"] - row["acknowledged"]:
            continue  # some had finished before, and it is not known which
        late = [stage.name for stage in scenario.topological() if absent[stage.name]]
        if late:
            missing.setdefault(late[0], []).append(int(row["checkpoint_id"]))
    if not missing:
        return None
    stage = max(missing, key=lambda name: len(missing[name]))
    own = expired[expired["checkpoint_id"].isin(missing[stage])]
    return {"stage": stage, "checkpoints": len(own)} | _ahead(stage, own, tables, scenario)


def _ahead(
    stage: str, expired: pd.DataFrame, tables: Tables, scenario: Scenario
) -> dict[str, float | None]:
    """Return what was ahead of the barriers to a stage, and how fast it took records up."""
    passed = {stage, *scenario.upstream(stage)}
    records = sum(
        float(_at_trigger(tables, edge, expired, "in_flight_records").sum())
        for edge in scenario.edges
        if edge.receiver in passed
    )
    spans = zip(expired["triggered_s"], expired["ended_s"], strict=True)
    rates = [_rate_in(tables, stage, start_s, end_s) for start_s, end_s in spans]
    known = [rate for rate in rates if rate is not None]
    return {
        "in_flight_records": records / len(expired),
        "rate_in": sum(known) / len(known) if known else None,
    }


def _slow_ms(scenario: Scenario, round_ms: float) -> float:
    """Return the time from which a checkpoint is slow, ms."""
    depth: dict[str, int] = {}
    for stage in scenario.topological():
        inputs = scenario.inputs(stage.name)
        depth[stage.name] = 1 + max((depth[edge.sender] for edge in inputs), default=0)
    messages_ms = round_ms * _ROUNDS_OF_A_MESSAGE * (max(depth.values()) + 1)
    own = scenario.checkpointing
    interval_us = None if own is None else own.interval_us
    if interval_us is None:
        return max(_WITHOUT_INTERVAL_MS, messages_ms)
    return max(_LEAST_MS, messages_ms, SLOW * interval_us / 1000)


def _rows_of(tasks: pd.DataFrame, who: Mapping[str, Any]) -> pd.DataFrame:
    is_own = (tasks["stage"] == who["stage"]) & (tasks["subtask"] == who["subtask"])
    found: pd.DataFrame = tasks[is_own]
    return found


def _earlier(who: Mapping[str, Any], total: float, tasks: pd.DataFrame) -> dict[str, float]:
    """Return when the other subtasks of a stage acknowledged, if in less than half of its time."""
    others = tasks[(tasks["stage"] == who["stage"]) & (tasks["subtask"] != who["subtask"])]
    if others.empty or others["e2e_ms"].mean() > DOMINANT * total:
        return {}
    return {"others_ms": float(others["e2e_ms"].mean())}


def _departures(tasks: pd.DataFrame, done: pd.DataFrame) -> pd.DataFrame:
    """Return when each subtask sent its barrier on, ``left_ms`` after the trigger.

    An aligned subtask does so at the last barrier, one that lets barriers overtake at the first.
    """
    overtaken = done[done["is_unaligned"]]["checkpoint_id"]
    waited = tasks["alignment_ms"].mask(tasks["checkpoint_id"].isin(overtaken), 0.0)
    return tasks.assign(left_ms=tasks["start_delay_ms"] + waited)


def _longest_hop(
    stage: str, done: pd.DataFrame, tasks: pd.DataFrame, tables: Tables, scenario: Scenario
) -> dict[str, Any]:
    """Return the edge on the way to a stage on which the barriers spent the longest time.

    ``sent_ms`` is when its sender let them go, ``hop_ms`` how long they took from there.
    """
    ends = tasks.assign(end_ms=tasks["start_delay_ms"] + tasks["alignment_ms"])
    arrived = ends.groupby(["stage", "checkpoint_id"])["end_ms"].max().groupby("stage").mean()
    hops: list[tuple[float, Edge]] = []
    while inputs := [edge for edge in scenario.inputs(stage) if edge.sender in arrived.index]:
        edge = max(inputs, key=lambda one: float(arrived[one.sender]))
        hops.append((float(arrived[stage] - arrived[edge.sender]), edge))
        stage = edge.sender
    if not hops:
        return {}
    length, edge = max(hops, key=lambda hop: hop[0])
    samples = result_frame(tables, "stages")
    blocked = mean_over_time(samples[samples["stage"] == edge.sender], "backpressured_ms_per_s")
    size = _at_trigger(tables, edge, done, "in_flight_bytes").sum() / max(1, len(done))
    return {
        "edge": edge.name,
        "edge_sender": edge.sender,
        "hop_ms": length,
        "in_flight_bytes": float(size),
        "blocked": blocked / 1000.0,
    }


def _last_channel(
    slowest: Mapping[str, Any],
    done: pd.DataFrame,
    tasks: pd.DataFrame,
    tables: Tables,
    scenario: Scenario,
) -> dict[str, Any] | None:
    """Return the channel whose barrier the slowest subtask waited for, if one stands out.

    It does if its sender let its barrier go much later than all others did, else if it held much
    more than the other channels.
    """
    wait_ms = slowest["alignment_ms"]
    if wait_ms <= max(DOMINANT * slowest["e2e_ms"], _ROUNDING_MS):
        return None
    inputs = {edge.sender: edge for edge in scenario.inputs(slowest["stage"])}
    senders = _departures(tasks[tasks["stage"].isin(list(inputs))], done)
    left = senders.groupby(["stage", "subtask"])["left_ms"].mean().sort_values()
    if len(left) > 1 and left.iloc[-1] - left.iloc[-2] > _LATE * wait_ms:
        stage, subtask = left.index[-1]
        times = {"sent_ms": float(left.iloc[-1]), "others_sent_ms": float(left.iloc[-2])}
        return {"sender": str(stage), "sender_subtask": int(subtask), **times}
    return _fullest(slowest, done, tables, inputs)


def _fullest(
    slowest: Mapping[str, Any], done: pd.DataFrame, tables: Tables, inputs: Mapping[str, Edge]
) -> dict[str, Any] | None:
    held: dict[tuple[str, int], float] = {}
    for name, edge in inputs.items():
        sizes = _at_trigger(tables, edge, done, "in_flight_bytes")
        to_it = sizes[sizes.index.get_level_values("receiver") == slowest["subtask"]]
        for sender, size in zip(to_it.index.get_level_values("sender"), to_it, strict=True):
            held[name, int(sender)] = float(size) / len(done)
    if len(held) < 2:
        return None
    (name, sender), most = max(held.items(), key=lambda item: item[1])
    others = (sum(held.values()) - most) / (len(held) - 1)
    if most <= _FULLER * others or most <= 0:
        return None
    return {"sender": name, "sender_subtask": sender, "held_bytes": most, "others_bytes": others}


def _at_trigger(
    tables: Tables, edge: Edge, checkpoints: pd.DataFrame, column: str
) -> pd.Series[float]:
    """Return a level of each channel of an edge at the triggers, summed over checkpoints.

    It is that of the last sample before the trigger. The index is sender and receiver.
    """
    import pyarrow.compute as pc

    table = tables["channels"].select(["t_s", "edge", "sender", "receiver", column])
    rows = table.filter(pc.equal(table["edge"], edge.name)).to_pandas()
    times = rows["t_s"].drop_duplicates().sort_values()
    before = times.searchsorted(checkpoints["triggered_s"], side="right") - 1
    counts = times.iloc[before[before >= 0]].value_counts()
    weight = rows["t_s"].map(counts).fillna(0.0)
    levels: pd.Series[float] = rows[column] * weight
    return levels.groupby([rows["sender"], rows["receiver"]]).sum()


def _rate_in(tables: Tables, stage: str, start_s: float, end_s: float) -> float | None:
    """Return what a stage took up meanwhile, records/s; None between two samples."""
    rows = result_frame(tables, "stages")
    rows = rows[(rows["stage"] == stage) & (rows["t_s"] > start_s) & (rows["t_s"] <= end_s)]
    if rows.empty:
        return None
    return mean_over_time(rows, "rate_in") * int(rows["subtask"].nunique())


BLOCKED: Final = 500.0
"""Time from which a subtask that puts results out is held up by them, ms/s."""

MOST: Final = 0.5
"""Share of the time that barriers waited, from which a firing window is why."""


def advice_on(window: str) -> str:
    """Return what helps where barriers wait behind the timers of a window."""
    return (
        f"make the stage behind {window} faster, give it more subtasks, or spread the windows by "
        "offset; execution.checkpointing.unaligned.interruptible-timers.enabled (Flink 1.20, "
        "windows of Flink SQL) lets unaligned barriers pass between two timers"
    )


def timer_windows(scenario: Scenario) -> list[str]:
    """Return the stages with windows whose timers a watermark fires."""
    plans = {stage.name: scenario.window_of(stage.name) for stage in scenario.stages}
    return [name for name, plan in plans.items() if plan is not None and plan.is_event_time]


def firing_window(
    tables: Tables, scenario: Scenario, stage: str, spans: Collection[tuple[float, float]]
) -> str | None:
    """Return the window on the way to a stage that fired for most of the time of some checkpoints.

    Section 6 of the reference: all timers of a watermark fire between two records. A subtask that
    is blocked can only be so by results, and one that puts some out meanwhile is in the middle.

    - ``stage``: where the barriers were late; it may have the window.
    - ``spans``: from the trigger to the end of each checkpoint, s.

    Returns the stage whose timers held up barriers for longest, overtaking ones too. None if there
    is none, or if mail interrupts timers.
    """
    own, frame = scenario.checkpointing, result_frame(tables, "time")
    if own is None or own.interrupts_timers or frame.empty or not spans:
        return None
    whole = sum(end - start for start, end in spans)
    on_way = {stage, *scenario.upstream(stage)}
    names = [name for name in timer_windows(scenario) if name in on_way]
    found = {name: _firing_s(name, tables, frame, spans) for name in names}
    longest = max(found, key=lambda name: found[name], default=None)
    return longest if longest is not None and found[longest] > MOST * whole else None


def _firing_s(
    name: str, tables: Tables, frame: pd.DataFrame, spans: Collection[tuple[float, float]]
) -> float:
    """Return for how long of some spans a subtask of a window was blocked and put results out."""
    own = frame[frame["stage"] == name].sort_values("t_s")
    fired = own["fired"].groupby(own["subtask"]).diff().fillna(own["fired"])
    samples = result_frame(tables, "stages")
    samples = samples[samples["stage"] == name]
    both = samples.merge(
        own.assign(fresh=fired)[["t_s", "subtask", "fresh"]], on=["t_s", "subtask"]
    )
    both = both[(both["fresh"] > 0) & (both["backpressured_ms_per_s"] >= BLOCKED)]
    lengths = both.groupby("t_s")["interval_s"].first()
    found = 0.0
    for t_s, length in zip(lengths.index.tolist(), lengths.tolist(), strict=True):
        found += sum(max(0.0, min(end, t_s) - max(start, t_s - length)) for start, end in spans)
    return found


MOST_WINDOWED: Final = 0.5
"""Share of a checkpoint's state from which windows make it large; of the time for which windows are
kept, from which the lag of the watermark does."""


def find_windows(
    done: pd.DataFrame, tables: Tables, scenario: Scenario
) -> dict[str, str | float] | None:
    """Return the windows that make checkpoints large because their watermark lags.

    Of a key as many windows are open as begin in their length, their lateness and the lag
    (section 6 of the reference).

    Returns ``stage``; ``window_bytes``, its open windows at the sample before each trigger, and
    ``state_bytes``, what checkpoints wrote of all state, means; ``lag_ms``, how far its watermark
    was behind the clock there; ``kept_ms``, how long a window is kept without a lag;
    ``without_bytes``, what would be open then. None if no windows are most of the state, or the lag
    is not most of the time for which they are kept.
    """
    frame = result_frame(tables, "time")
    if frame.empty or done.empty or done["state_bytes"].mean() <= 0:
        return None
    found = [
        each
        for stage in scenario.stages
        if (each := _of_stage(stage.name, frame, done, scenario)) is not None
    ]
    most = max(found, key=lambda each: float(each["window_bytes"]), default=None)
    if most is None or float(most["window_bytes"]) <= MOST_WINDOWED * float(most["state_bytes"]):
        return None
    lag_ms, kept_ms = float(most["lag_ms"]), float(most["kept_ms"])
    return most if lag_ms > MOST_WINDOWED * (lag_ms + kept_ms) else None


def _of_stage(
    name: str, frame: pd.DataFrame, done: pd.DataFrame, scenario: Scenario
) -> dict[str, str | float] | None:
    """Return the figures of a stage whose windows have a length and follow the watermark."""
    plan = scenario.window_of(name)
    if plan is None or not plan.is_event_time or plan.size_ms == 0:
        return None
    by_sample = frame[frame["stage"] == name].groupby("t_s")
    rows = by_sample.agg({"window_state_bytes": "sum", "watermark_lag_ms": "max"})
    places = rows.index.searchsorted(done["triggered_s"], side="right") - 1
    own = rows.iloc[places[places >= 0]]
    own = own[own["watermark_lag_ms"].notna()]
    if own.empty:
        return None
    nbytes, lag_ms = (float(own[column].mean()) for column in own)
    kept_ms = float(plan.size_ms + plan.lateness_ms)
    return {
        "stage": name,
        "window_bytes": nbytes,
        "state_bytes": float(done["state_bytes"].mean()),
        "lag_ms": lag_ms,
        "kept_ms": kept_ms,
        "without_bytes": nbytes * kept_ms / (kept_ms + max(0.0, lag_ms)),
    }
