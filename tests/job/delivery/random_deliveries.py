"""Random jobs with guarantees that checkpoint, fail and restart: what several folders draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from flowcontrol.control.delivery import DeliveryControl
from flowcontrol.control.delivery_sinks import SinkGroup
from flowcontrol.layout.job import CheckpointSettings, Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.protocol.checkpoints.alignment import ALIGNED, AT_LEAST_ONCE, UNALIGNED
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.scenario.fault_tolerance import Failure, FixedDelay
from modules import load

watched_runs: Any = load("tests/job/watched_runs.py")

GUARANTEES = ("exactly-once", "at-least-once", "at-most-once")


@st.composite
def with_guarantees(draw: Any, scenario: Scenario) -> Scenario:
    """Give each sink a guarantee, and let a source now and then not rewind."""
    mapping = scenario.canonical()
    sinks = {stage.name for stage in scenario.sinks}
    sources = {stage.name for stage in scenario.sources}
    for stage in mapping["stages"]:
        if stage["name"] in sinks:
            stage["guarantee"] = draw(st.sampled_from(["exactly-once", *GUARANTEES]))
            if stage["guarantee"] == "exactly-once":
                timeout = draw(st.sampled_from([None] * 4 + [6 * scenario.live_round_us / 1e6]))
                if timeout is not None:
                    stage["transaction_timeout_s"] = timeout
        if stage["name"] in sources:
            stage["replayable"] = draw(st.sampled_from([True, True, True, False]))
    return parse_scenario(mapping)


@st.composite
def jobs(
    draw: Any,
    random_jobs: ModuleType,
    random_checkpoints: ModuleType,
    random_failures: ModuleType,
    shape: Any,
) -> Job:
    """A random job that fails, most often with checkpoints, with guarantees of its sinks."""
    scenario = draw(with_guarantees(draw(random_jobs.scenarios(shape))))
    job = random_jobs.laid_out(scenario)
    settings = draw(random_checkpoints.settings_of(job.round_us, job.rounds))
    job = random_checkpoints.with_checkpoints(job, settings)
    if draw(st.sampled_from([False] * 7 + [True])):
        job = replace(job, checkpoints=None)
    return replace(job, faults=draw(random_failures.faults_of(job)))


@st.composite
def small_jobs(draw: Any, random_checkpoints: ModuleType, random_failures: ModuleType) -> Job:
    """A small job that ends, most often with completed checkpoints before and after its failures.

    Stages have other speeds subtask by subtask, so that barriers are apart, and whole ratios, so
    that what becomes of a record does not depend on those before it. Several things
    may fail at once.
    """
    round_us = 100_000
    width, rate = st.integers(1, 3), st.sampled_from([60, 30, 90])
    names = ["a", "b"][: draw(st.integers(1, 2))]
    stages: list[dict[str, Any]] = []
    rewinds, alike = draw(_MOSTLY), draw(_MOSTLY)
    for name in names:
        if not alike:
            rewinds = draw(st.booleans())
        stage = {"name": name, "parallelism": draw(width), "replayable": rewinds}
        ending = [{"at_s": 0, "rate": draw(rate)}, {"at_s": draw(st.integers(2, 4)), "rate": 0}]
        key = draw(st.sampled_from(["arrival_rate", "emit_rate"]))
        stages.append({**stage, key: ending})
        stages[-1].setdefault("emit_rate", 200)
    edges, above = [], [*stages]
    middles = ["m", "n", "o"][: draw(_MIDDLES)]
    expands = draw(st.sampled_from([None, *middles]))
    for name in middles:
        ratio = draw(_RATIOS) if name == expands else 1
        stages.append({"name": name, "parallelism": draw(width), "selectivity": ratio})
        edges += [draw(_edge(stage, stages[-1])) for stage in above]
        above = stages[-1:]
    sinks = [{"name": name, "parallelism": draw(width)} for name in "kl"[: draw(_SINKS)]]
    edges += [draw(_edge(stage, sink)) for sink in sinks for stage in above]
    stages += sinks
    for stage in stages[len(names) :]:
        each = st.lists(st.sampled_from([400, 150, 90, 50]), min_size=3, max_size=3)
        stage["service_rate"] = draw(each)[: stage["parallelism"]]
    for sink in sinks:
        sink["guarantee"] = draw(st.sampled_from(GUARANTEES))
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "small",
            "duration_s": 14,
            "round_ms": 100,
            "sample_interval_s": 0.7,
            "stages": stages,
            "edges": edges,
        }
    )
    job = build_physical_graph(scenario, round_us=round_us)
    # What doubles although sources rewind, and what comes again although they do not.
    often = [AT_LEAST_ONCE] if rewinds else [UNALIGNED] * 3
    mode = draw(st.sampled_from([*often, *random_checkpoints.MODES]))
    settings = CheckpointSettings(
        mode=mode,
        interval_us=draw(st.sampled_from([5, 8, 13])) * round_us,
        aligned_timeout_us=3 * round_us,
        timeout_us=1000 * round_us,
        tolerable_failures=1000,
        max_concurrent=draw(st.sampled_from([1, 2])) if mode in {ALIGNED, AT_LEAST_ONCE} else 1,
    )
    job = replace(job, checkpoints=draw(st.sampled_from([settings] * 3 + [None])))
    found = draw(random_failures.faults_of(job))
    at_us, later = draw(st.integers(8, 40)) * round_us, list[Failure]()
    for failure in found.failures:
        later.append(replace_at(failure, at_us))
        at_us += draw(_GAPS) * round_us
    return replace(job, faults=replace(found, failures=tuple(later), policy=FixedDelay(99, 0)))


_MOSTLY = st.sampled_from([True, True, True, False])
_RATIOS = st.sampled_from([1, 1, 2, 3])
_SINKS = st.sampled_from([1, 1, 2])
_MIDDLES = st.sampled_from([1, 1, 2, 2, 3, 0])
_GAPS = st.sampled_from([9, 9, 9, 0, 0, 4])


def replace_at(failure: Failure, at_us: int) -> Failure:
    """Return a failure at another time."""
    return failure.model_copy(update={"at_s": Fraction(at_us, 10**6)})


@st.composite
def _edge(draw: Any, sender: dict[str, Any], receiver: dict[str, Any]) -> dict[str, Any]:
    kinds = ["rebalance", "rebalance", "shuffle", "rescale", "global"]
    if sender["parallelism"] == receiver["parallelism"]:
        kinds = ["forward", *kinds]
    kind = draw(st.sampled_from(kinds))
    return {"from": sender["name"], "to": receiver["name"], "partitioner": kind}


class Watched(DeliveryControl):
    """The control of a run, which notes the hard cases.

    Attributes
    ----------
    seen : Counter of str
        What has happened.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.seen = Counter[str]()
        for group in self.groups:
            group.restart = partial(self._begin, group, group.restart)  # type: ignore[method-assign]

    def _begin(
        self,
        group: SinkGroup,
        restart: Callable[..., None],
        number: int,
        checkpoint: int,
        found: list[Any],
    ) -> None:
        accounts = [sink.account for sink in group.sinks]
        before = [account.lost for account in accounts]
        for account in accounts:
            state = account.state()["sink"]
            pending = [] if state is None else [number for number, *_ in state["pending"]]
            self.seen["between preCommit and commit"] += bool(pending)
            self.seen["committed by the restore"] += checkpoint in pending
        self.seen["during a replay"] += accounts[0].settled.coming > 0
        restart(number, checkpoint, found)
        self.seen["lost"] += any(
            account.lost > lost for account, lost in zip(accounts, before, strict=True)
        )
        for one in found:
            _, in_flight, early, stored, again, _ = one
            self.seen["in flight"] += in_flight > 0
            self.seen["early"] += early > 0
            self.seen["stored"] += stored > 0
            self.seen["some sources rewind"] += again is not None and again > 0
            self.seen["nothing rewinds"] += again == 0

    def note(self) -> None:
        """Note what came of it in the end."""
        for sink in self.sinks:
            self.seen["twice"] += sink.account.visible_twice > 0
            self.seen["staged"] += sink.account.staged > 0
            self.seen[sink.account.guarantee] += sink.account.committed > 0


def watched(job: Job) -> Watched:
    """Run a job in memory; return what the readers of its sinks saw."""
    control = Watched(job)
    watched_runs.WatchedRun(job, delivery=control).run()
    control.note()
    return control
