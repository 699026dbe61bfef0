"""``root_cause`` against a table by hand: the readings of pool usages and of busy subtasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flowcontrol.diagnosis import Finding, root_cause

Row = dict[str, Any]
CHAIN = [("source", "map"), ("map", "sink")]
DIAMOND = [("source", "left"), ("source", "right"), ("left", "sink"), ("right", "sink")]


def row(stage: str, kind: str = "idle", subtask: int = 0, tm: int = 0, **figures: Any) -> Row:
    """Return a row: ``idle``, ``busy`` behind full inputs, or ``blocked`` before full outputs."""
    shares = {
        "idle": {"idle_ms_per_s": 950.0, "busy_ms_per_s": 50.0},
        "busy": {"busy_ms_per_s": 995.0, "idle_ms_per_s": 5.0, "in_pool_usage": 0.97},
        "blocked": {"backpressured_ms_per_s": 900.0, "busy_ms_per_s": 100.0, "out_pool_usage": 1.0},
        "passing": {
            "backpressured_ms_per_s": 700.0,
            "busy_ms_per_s": 300.0,
            "in_pool_usage": 0.95,
            "out_pool_usage": 1.0,
        },
    }[kind]
    zeros = dict.fromkeys(
        (
            *("busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s"),
            *("in_pool_usage", "out_pool_usage"),
        ),
        0.0,
    )
    own = {"stage": stage, "subtask": subtask, "task_manager": tm, "records_in": 1000}
    return {**zeros, **own, **shares, **figures}


def process(tm: int = 0, cpu: float = 0.3, gc: float = 5.0) -> Row:
    return {"task_manager": tm, "cpu_share": cpu, "gc_ms_per_s": gc}


def chain(*rows: Row, processes: tuple[Row, ...] = (process(),)) -> dict[str, Any]:
    return {"edges": CHAIN, "stages": list(rows), "processes": list(processes)}


def parallel(*rows: Row, processes: tuple[Row, ...] = (process(),)) -> dict[str, Any]:
    """Return a blocked source before the subtasks of a map, and an idle sink."""
    return chain(row("source", "blocked"), *rows, row("sink"), processes=processes)


SOURCE, HELD, PASSING = row("source", "blocked"), row("map", "blocked"), row("map", "passing")
SLOW_SINK = row("sink", "busy")
HOT = [row("map", "busy", 0, records_in=4000), row("map", subtask=1), row("map", subtask=2)]
SLOT = [row("map", "busy", 1), row("map", subtask=0), row("map", subtask=2)]

TABLE: list[tuple[str, dict[str, Any], tuple[str | None, int | None, str]]] = [
    ("nothing is blocked", chain(row("source"), row("map"), row("sink")), (None, None, "none")),
    (
        "low in, low out, ten per cent are not yet pressure",
        chain(row("source", backpressured_ms_per_s=100.0), row("map", "busy"), row("sink")),
        (None, None, "none"),
    ),
    (
        "pressure is building, and has not reached anybody",
        chain(row("source"), row("map"), SLOW_SINK, processes=(process(cpu=0.95),)),
        (None, None, "none"),
    ),
    (
        "busy beside full cores",
        chain(SOURCE, PASSING, SLOW_SINK, processes=(process(cpu=0.95),)),
        ("sink", None, "cpu"),
    ),
    ("busy beside idle cores", chain(SOURCE, PASSING, SLOW_SINK), ("sink", None, "external")),
    (
        "busy, the cores half used: its figures do not tell",
        chain(SOURCE, PASSING, SLOW_SINK, processes=(process(cpu=0.65),)),
        ("sink", None, "downstream"),
    ),
    (
        "busy, and no figures of a process",
        chain(SOURCE, PASSING, SLOW_SINK, processes=()),
        ("sink", None, "downstream"),
    ),
    (
        "the first free one behind blocked ones, not the busy one further down",
        chain(SOURCE, row("map", "busy"), SLOW_SINK),
        ("map", None, "external"),
    ),
    (
        "cores of the suspect's task manager count, not those of another",
        chain(
            SOURCE,
            PASSING,
            row("sink", "busy", tm=1),
            processes=(process(0, cpu=0.99), process(1, cpu=0.1)),
        ),
        ("sink", None, "external"),
    ),
    (
        "garbage collection, every task of the task manager slow",
        chain(SOURCE, PASSING, SLOW_SINK, processes=(process(cpu=0.9, gc=350),)),
        ("sink", None, "gc"),
    ),
    (
        "garbage collection where another task has time to spare: not that",
        chain(
            SOURCE, PASSING, SLOW_SINK, row("sink", subtask=1), processes=(process(gc=350),)
        ),
        ("sink", 0, "external"),
    ),
    (
        "a hundred milliseconds of it are usual",
        chain(SOURCE, PASSING, SLOW_SINK, processes=(process(gc=100),)),
        ("sink", None, "external"),
    ),
    (
        "garbage collection on one of two task managers",
        parallel(
            row("map", "busy", 0, tm=1),
            row("map", "idle", 1, tm=2),
            processes=(process(1, gc=400), process(2)),
        ),
        ("map", 0, "gc"),
    ),
    ("one subtask with more records", parallel(*HOT), ("map", 0, "skew")),
    (
        "the same beside full cores: records come first",
        parallel(*HOT, processes=(process(cpu=0.95),)),
        ("map", 0, "skew"),
    ),
    (
        "a little more than an even share",
        parallel(
            row("map", "busy", 0),
            row("map", "busy", 1, records_in=1300, busy_ms_per_s=1000.0),
            row("map", subtask=2),
        ),
        ("map", 1, "skew"),
    ),
    ("one subtask, the same records: a slow slot", parallel(*SLOT), ("map", 1, "external")),
    (
        "a slow slot on a task manager whose cores are full",
        parallel(
            row("map", "busy", 1, tm=1),
            row("map", subtask=0, tm=0),
            processes=(process(0), process(1, cpu=1.0)),
        ),
        ("map", 1, "cpu"),
    ),
    (
        "fewer records and busier: no skew",
        parallel(row("map", "busy", 1, records_in=200), row("map", subtask=0)),
        ("map", 1, "external"),
    ),
    (
        "out high, in low: the network, and the receiver is the vertex",
        chain(SOURCE, row("map"), row("sink")),
        ("map", None, "network"),
    ),
    (
        "between the last two",
        chain(SOURCE, PASSING, row("sink", in_pool_usage=0.2)),
        ("sink", None, "network"),
    ),
    (
        "in high, and nothing is taken from it: barriers",
        chain(SOURCE, PASSING, row("sink", in_pool_usage=0.9)),
        ("sink", None, "checkpoint"),
    ),
    (
        "in high, out low, half busy: it is the place, and no more is known",
        chain(
            SOURCE, PASSING, row("sink", in_pool_usage=0.9, busy_ms_per_s=700, idle_ms_per_s=300)
        ),
        ("sink", None, "downstream"),
    ),
    (
        "in high of one subtask, idle another: no barriers",
        chain(SOURCE, PASSING, row("sink", "busy", busy_ms_per_s=850), row("sink", subtask=1)),
        ("sink", None, "downstream"),
    ),
    (
        "blocked for the moment, no pool is full",
        chain(row("source", "blocked", out_pool_usage=0.3), row("map"), row("sink")),
        ("map", None, "downstream"),
    ),
    (
        "all are blocked, the last of the tables too",
        chain(SOURCE, PASSING, row("sink", "passing")),
        ("sink", None, "downstream"),
    ),
    (
        "a diamond: the busy branch, not the idle one that comes first",
        {
            "edges": DIAMOND,
            "stages": [SOURCE, row("left"), row("right", "busy"), row("sink")],
            "processes": [process(cpu=0.9)],
        },
        ("right", None, "cpu"),
    ),
    (
        "a fan-in: both maps are held, the sink limits",
        {
            "edges": [("a", "sink"), ("b", "sink")],
            "stages": [row("a", "blocked"), row("b", "blocked"), SLOW_SINK],
            "processes": [process(cpu=0.85)],
        },
        ("sink", None, "cpu"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("tables", "found"), [case[1:] for case in TABLE], ids=[c[0] for c in TABLE]
)
def test_the_table(tables: dict[str, Any], found: tuple[str | None, int | None, str]) -> None:
    finding = root_cause(tables)
    assert (finding.vertex, finding.subtask, finding.cause) == found
    assert finding.evidence
    assert all(text.endswith(".") for text in finding.evidence)
    assert finding.advice


@pytest.mark.parametrize("blocked", [90, 100, 101, 110, 200, 300, 450])
@pytest.mark.parametrize("after", [0, 300])
def test_a_vertex_at_work_behind_full_inputs_is_guilty_however_long_it_is_blocked(
    blocked: int, after: int
) -> None:
    own = {"in_pool_usage": 1.0, "out_pool_usage": 0.3, "backpressured_ms_per_s": blocked}
    busy = {"busy_ms_per_s": 1000.0 - blocked, "idle_ms_per_s": 0.0}
    sink = row("sink", busy_ms_per_s=after, idle_ms_per_s=1000.0 - after, in_pool_usage=0.1)
    finding = root_cause(chain(SOURCE, row("map", **own, **busy), sink))
    assert (finding.vertex, finding.cause) == ("map", "external")


def test_a_busier_vertex_behind_one_at_work_is_guilty() -> None:
    own = {"in_pool_usage": 1.0, "out_pool_usage": 0.3, "backpressured_ms_per_s": 110}
    held = row("map", **own, busy_ms_per_s=890.0, idle_ms_per_s=0.0)
    assert root_cause(chain(SOURCE, held, SLOW_SINK)).vertex == "sink"


def test_rows_may_stand_in_any_order() -> None:
    found = TABLE[3][1]
    assert root_cause({**found, "stages": found["stages"][::-1]}) == root_cause(found)


def test_evidence_has_the_figures() -> None:
    finding = root_cause(parallel(*HOT))
    assert isinstance(finding, Finding)
    assert finding.evidence == (
        "Back-pressured are source 90 % of the time, and map only 0 %.",
        "1 of 3 subtasks of map are busy for 90 % or more.",
        "Subtask 0 of map took up 67 % of its records, 2.0 times an even share.",
    )


def without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda tables: {key: value for key, value in tables.items() if key != name}


def with_figure(table: str, name: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change(tables: dict[str, Any]) -> dict[str, Any]:
        rows = tables[table] or [{"task_manager": 0, "cpu_share": 0.5, "gc_ms_per_s": 0}]
        return {**tables, table: [{**rows[0], name: value}, *rows[1:]]}

    return change


WRONG: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    "no table": (without("processes"), "table processes is missing"),
    "no figure": (lambda t: {**t, "stages": [{"stage": "map"}]}, "row 0 of stages lacks subtask"),
    "no rows": (lambda t: {**t, "edges": [("map", "other")]}, "names 'other', without rows"),
    "not a number": (
        with_figure("stages", "busy_ms_per_s", float("nan")),
        "row 0 of stages: busy_ms_per_s is nan: state a number",
    ),
    "nothing": (with_figure("stages", "in_pool_usage", None), "in_pool_usage is None"),
    "below zero": (with_figure("stages", "records_in", -1), "records_in is -1"),
    "a load of text": (with_figure("processes", "cpu_share", "80%"), "cpu_share is '80%'"),
    "a cycle": (lambda t: {**t, "edges": [*CHAIN, ("sink", "map")]}, "map, sink form a cycle"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_tables_are_refused(name: str) -> None:
    change, text = WRONG[name]
    with pytest.raises(ValueError, match=text):
        root_cause(change(TABLE[0][1]))
