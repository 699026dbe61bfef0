"""Reading a job out of polls of Flink's REST API (1.13 to 2.x)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from flowcontrol.calibration.bodies import (
    Poll,
    job_of,
    known,
    known_rows,
    plain,
    rows_at,
    shown,
    width_at,
    word_at,
)
from flowcontrol.calibration.draft import refuse
from flowcontrol.calibration.flink_bodies import (
    METERS,
    SUBTASK_IDS,
    TIME_GAUGES,
    asked_names,
    checkpoint_options,
    durations,
    latencies,
    number,
    reading,
    states,
)
from flowcontrol.calibration.readings import FlinkEdge, FlinkJob, Reading, Subtask, Vertex

RESTART: Final = (
    "the job was restarted in the window, and its counters began anew: dump again after the "
    "restart, or leave the polls before it out"
)


def read_job(polls: Sequence[Poll], source: str, wanted: str | None = None) -> FlinkJob:
    """Read a job out of polls.

    - ``polls``: bodies by path, as :func:`~flowcontrol.calibration.bodies.read_dump` returns them.
    - ``wanted``: id of the job; by default the only one.

    Raises ScenarioError if there is no job to read, no metrics of it, only one moment, or a restart
    between polls.
    """
    job = job_of(polls, wanted, source)
    root = f"/jobs/{job}"
    kept = [poll for poll in polls if isinstance(poll.get(root), Mapping)]
    if len(kept) < 2:
        refuse("polls", f"{len(kept)} holds {root}: two are needed, some time apart", source)
    bodies = [poll[root] for poll in kept]
    nodes = _plan(kept, root, source)
    _check_states(bodies, source)
    vertices = rows_at(bodies[0].get("vertices"), f"{root}.vertices", source)
    if not vertices:
        refuse(root, "has no vertices", source)
    names = _names([word_at(one, "name", f"{root}.vertices", source) for one in vertices])
    ids = [word_at(one, "id", f"{root}.vertices", source) for one in vertices]
    stage_of = dict(zip(ids, names, strict=True))
    if len(stage_of) < len(ids):
        refuse(f"{root}.vertices", "two have the same id: dump the body as it is", source)
    found = tuple(
        _vertex(kept, root, vertex, stage_of[own], source)
        for vertex, own in zip(vertices, ids, strict=True)
    )
    edges = _edges(nodes, stage_of, f"{root}/plan", source)
    _check_metrics(kept, root, found, source)
    if any(one.subtasks[0].wall_ms <= 0 for one in found):
        refuse("polls", "all are of one moment (`now`): poll again 60 s later or more", source)
    by_id = dict(stage_of)
    since = found[0].subtasks[0].readings[0].at_ms
    return FlinkJob(
        id=job,
        name=plain(str(bodies[-1].get("name") or job)),
        vertices=found,
        edges=edges,
        source=source,
        config=_config(kept, root),
        version=_version(kept),
        segment_bytes=_segment(kept),
        durations_ms=durations(kept, root, since),
        states=states(kept, root, by_id),
        latencies=latencies(kept, root, by_id),
    )


def _check_metrics(
    polls: Sequence[Poll], root: str, vertices: Sequence[Vertex], source: str
) -> None:
    """Refuse polls in which no records or no times of subtasks are counted.

    Raises ScenarioError if no subtask says how many records it took or sent, or none how long it
    was busy.
    """
    names = {
        name
        for vertex in vertices
        for subtask in vertex.subtasks
        for one in subtask.readings
        for name in one.values
    }
    ask = f"{root}/vertices/<vertex>/subtasks/<subtask>/metrics?get="
    if names.isdisjoint({"records_in", "records_out"}):
        here = sorted(asked_names(polls, f"{root}/vertices/").intersection((*METERS, *TIME_GAUGES)))
        if here:
            text = (
                f"they hold only rates and shares of the last moments ({', '.join(here)}), of "
                f"which no scenario can be made: ask each subtask for its counters too, "
                f"{ask}{','.join(SUBTASK_IDS[:7])}"
            )
        else:
            text = (
                "no poll holds metrics of a subtask: dump /jobs/<id>/vertices/<vertex> for each "
                "vertex as well, once metrics are in (10 s after the start)"
            )
        refuse("polls", text, source)
    if not any(name.startswith(("busy_", "idle_", "blocked_")) for name in names):
        version = _version(polls)
        text = (
            f"no poll{f' of this Flink {version}' if version else ''} holds how long a subtask was "
            "busy, so that the stage that limits is not known: ask each subtask for its times too, "
            f"{ask}{','.join(TIME_GAUGES)} (Flink 1.13 and later; from 1.16 on the body of each "
            "vertex holds them as well)"
        )
        refuse("polls", text, source)


def _plan(polls: Sequence[Poll], root: str, source: str) -> list[Mapping[str, Any]]:
    """Return the nodes of the plan, which the body of a job holds as well."""
    for poll in polls:
        for body in (poll.get(f"{root}/plan"), poll[root]):
            plan = known(known(body).get("plan"))
            if plan.get("nodes"):
                return rows_at(plan["nodes"], f"{root}/plan.nodes", source)
    text = "no poll holds it: who sends to whom is not known; dump it too"
    return refuse(f"{root}/plan", text, source)


def _edges(
    nodes: Sequence[Mapping[str, Any]], stage_of: Mapping[str, str], place: str, source: str
) -> tuple[FlinkEdge, ...]:
    """Return who sends to whom.

    Raises ScenarioError if the plan names a vertex that the job does not have.
    """
    found = []
    for node in nodes:
        rows = rows_at(node.get("inputs"), f"{place}.nodes.inputs", source)
        ends = [(one.get("id"), node.get("id"), one) for one in rows]
        for sender, receiver, one in ends:
            for end in (sender, receiver):
                if str(end) not in stage_of:
                    text = f"{shown(end)} is not a vertex of the job: is the plan of another one?"
                    refuse(f"{place}.nodes", text, source)
            ship = plain(str(one.get("ship_strategy") or "REBALANCE")).upper()
            exchange = str(one.get("exchange", ""))
            found.append(FlinkEdge(stage_of[str(sender)], stage_of[str(receiver)], ship, exchange))
    return tuple(found)


def _check_states(bodies: Sequence[Mapping[str, Any]], source: str) -> None:
    """Refuse polls of a job that does not run.

    Raises ScenarioError if a poll says that the job has ended or stopped.
    """
    for at, body in enumerate(bodies):
        state = body.get("state")
        if state is not None and str(state).upper() != "RUNNING":
            text = f"the job is {plain(str(state))}: dump while it runs, or leave the poll out"
            refuse(f"polls[{at}]", text, source)


def _vertex(
    polls: Sequence[Poll], root: str, vertex: Mapping[str, Any], stage: str, source: str
) -> Vertex:
    """Return a vertex, its subtasks over all polls."""
    place = f"{root}/vertices/{vertex['id']}"
    count = width_at(vertex, f"{root}.vertices", source)
    readings: list[list[Reading]] = [[] for _ in range(count)]
    managers = [""] * count
    begun: list[tuple[Any, Any] | None] = [None] * count
    at_ms = 0.0
    for at, poll in enumerate(polls):
        body = poll.get(place)
        own = known(body)
        rows = rows_at(own.get("subtasks"), f"polls[{at}]{place}.subtasks", source)
        here = _vertex_of(poll[root], str(vertex["id"]))
        parallelism = len(rows) or here.get("parallelism", count)
        if parallelism != count:
            text = f"polls[{at}]: parallelism {shown(parallelism)}, before {count}; {RESTART}"
            refuse(place, text, source)
        before_ms, at_ms = at_ms, _moment(own, poll[root], f"polls[{at}]{place}", source)
        if at_ms < before_ms:
            text = f"`now` {at_ms:.0f} is before that of the poll before, {before_ms:.0f}: put the "
            refuse(f"polls[{at}]{place}", text + "polls in the order of time", source)
        for k in range(count):
            row = rows[k] if rows else {}
            start = (row.get("attempt"), row.get("start-time") or row.get("start_time"))
            if begun[k] not in (None, start) and rows:
                text = f"polls[{at}], subtask {k}: attempt and start {start}; {RESTART}"
                refuse(place, text, source)
            begun[k] = start if rows else begun[k]
            managers[k] = str(row.get("taskmanager-id") or managers[k])
            whole = None if rows else here.get("metrics")
            readings[k].append(Reading(at_ms, reading(poll, place, k, count, row, whole)))
    subtasks = tuple(
        Subtask(tuple(own), manager) for own, manager in zip(readings, managers, strict=True)
    )
    found = Vertex(str(vertex["id"]), str(vertex["name"]), stage, subtasks)
    _check_restart(found, place, source)
    return found


def _moment(own: Mapping[str, Any], job: Mapping[str, Any], place: str, source: str) -> float:
    """Return when Flink answered, ms since 1970.

    Raises ScenarioError if neither the vertex's body nor the job's says it.
    """
    found = number(own.get("now")) or number(job.get("now"))
    if found is None:
        refuse(f"{place}.now", "is not a time, ms since 1970: dump the body as it is", source)
    return found


def _check_restart(vertex: Vertex, place: str, source: str) -> None:
    """Refuse counters that all began anew.

    Raises ScenarioError if the records of every subtask go back between two polls.
    """
    for name in ("records_in", "records_out"):
        for poll in range(1, len(vertex.subtasks[0].readings)):
            pairs = [
                (one.readings[poll - 1].values.get(name), one.readings[poll].values.get(name))
                for one in vertex.subtasks
            ]
            known = [(old, new) for old, new in pairs if old is not None and new is not None]
            if known and all(new < old for old, new in known):
                old, new = known[0]
                text = f"polls[{poll}]: {name} of every subtask went back ({old:g} to {new:g}); "
                refuse(place, text + RESTART, source)


def _vertex_of(body: Mapping[str, Any], wanted: str) -> Mapping[str, Any]:
    rows = known_rows(body.get("vertices"))
    return next((row for row in rows if str(row.get("id")) == wanted), {})


def _names(names: Sequence[str]) -> list[str]:
    """Return names of stages: what a scenario allows, each once.

    ``Source: orders -> Map`` becomes ``orders-Map``; Flink's kinds of tasks are left out.
    """
    found: list[str] = []
    for name in names:
        stage = re.sub(r"^(Source|Sink): ", "", name).replace(": Writer", "")
        stage = re.sub(r"[^A-Za-z0-9_-]+", "-", stage).strip("-_")[:48].strip("-_") or "stage"
        count, unique = 2, stage
        while unique in found:
            unique, count = f"{stage}-{count}", count + 1
        found.append(unique)
    return found


def _config(polls: Sequence[Poll], root: str) -> dict[str, str]:
    """Return the job manager's options, and over them what the job says of its checkpoints."""
    found: dict[str, str] = {}
    for poll in polls:
        for path in ("/jobmanager/config", f"{root}/jobmanager/config"):
            for row in known_rows(poll.get(path)):
                found[plain(str(row.get("key")))] = plain(str(row.get("value")))
    return found | checkpoint_options(polls, root)


def _version(polls: Sequence[Poll]) -> str:
    for poll in polls:
        for path in ("/config", "/overview"):
            body = known(poll.get(path))
            if body.get("flink-version"):
                return plain(str(body["flink-version"]))
    return ""


def _segment(polls: Sequence[Poll]) -> int | None:
    """Return the bytes of a network buffer, by what a task manager says of all of them."""
    for poll in polls:
        for path, body in poll.items():
            if not path.startswith("/taskmanagers/"):
                continue
            metrics = known(known(body).get("metrics"))
            count = number(metrics.get("nettyShuffleMemorySegmentsTotal"))
            nbytes = number(metrics.get("nettyShuffleMemoryTotal"))
            if count and nbytes and nbytes % count == 0:
                return int(nbytes // count)
    return None
