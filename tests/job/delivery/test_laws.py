"""What each guarantee promises, of random jobs that fail: held to every single row."""

from __future__ import annotations

import os
from collections import Counter
from types import ModuleType
from typing import Any

from hypothesis import given, note, settings

from flowcontrol.control.delivery_sinks import rows_of_inputs
from flowcontrol.protocol.checkpoints.alignment import AT_LEAST_ONCE

IS_LONG = "FLOWCONTROL_LONG" in os.environ
EXAMPLES = settings.default.max_examples
MOST_RUNS = 12

EVENTS = {
    "ended",
    "restarted",
    "restored by the restart",
    "exactly-once",
    "at-least-once",
    "at-most-once",
    "twice",
    "twice by barriers at least once",
    "lost",
    "lost by a source that cannot rewind",
    "two sinks",
    "several stages in between",
    "no checkpoints",
    "several failures at once",
    "several restarts",
    "during a replay",
    "stored",
    "held by a checkpoint though nothing rewinds",
    "some sources rewind",
    "came again to another subtask",
    "came again to another subtask during a replay",
}
"""What must have happened in some of the runs."""


class Law:
    """One run, held to what its sinks promise."""

    def __init__(self, job: Any, follower: ModuleType, random_deliveries: ModuleType) -> None:
        control = random_deliveries.Watched(job)
        self.run, self.job, self.seen = follower.Follower(job, control), job, control.seen
        self._emitted: dict[int, int] = {}
        self._watch_sources()
        self.run.run()
        self._note_hard_cases()
        control = self.run.failures
        self.seen["restarted"] += any(one.running >= 0 for one in control.restarts)
        self.seen["restored by the restart"] += any(one.checkpoint >= 0 for one in control.restarts)
        self.seen["two sinks"] += len(job.scenario.sinks) == 2
        self.hold()

    def _note_hard_cases(self) -> None:
        """Note what makes it hard to say which record came to whom."""
        failures, seen = self.job.faults.failures, self.seen
        times = [one.at_s for one in failures]
        running = [one for one in self.run.failures.restarts if one.running >= 0]
        scenario = self.job.scenario
        stages = len(scenario.stages) - len(scenario.sources) - len(scenario.sinks)
        seen["several stages in between"] += stages > 1
        seen["no checkpoints"] += self.job.checkpoints is None
        seen["several failures at once"] += len(set(times)) < len(times)
        seen["several restarts"] += len(running) > 1
        seen["held by a checkpoint though nothing rewinds"] += (
            seen["stored"] > 0 and seen["nothing rewinds"] > 0
        )
        for stage in self.job.scenario.sinks:
            writers: dict[Any, set[int]] = {}
            for (name, subtask), own in self.run.readers.items():
                for row in own.visible if name == stage.name else ():
                    writers.setdefault(row, set()).add(subtask)
            moved = any(len(found) > 1 for found in writers.values())
            seen["came again to another subtask"] += moved
            both = moved and seen["during a replay"] > 0
            seen["came again to another subtask during a replay"] += both

    def _watch_sources(self) -> None:
        """Note how far each source ever was."""
        restarting = self.run.restarting

        def watched(number: int, restart: Any, keeps: Any, attempts: Any) -> None:
            for task, one in enumerate(self.run.states[-1].tasks):
                if self.job.stage(one.stage).is_source:
                    self._emitted[task] = max(self._emitted.get(task, 0), one.state.taken)
            restarting(number, restart, keeps, attempts)

        self.run.restarting = watched

    def hold(self) -> None:
        """Compare each sink's account with the rows."""
        tasks, settings = self.run.states[-1].tasks, self.job.checkpoints
        is_source = [self.job.stage(one.stage).is_source for one in tasks]
        emitted = [one.state.taken * own for one, own in zip(tasks, is_source, strict=True)]
        # All have finished, so the last checkpoint is complete, or there is none to wait for.
        has_ended = all(one.state.is_finished and one.is_running for one in tasks)
        # A source without a log may emit less in the end than it did before it was put back.
        has_ended = has_ended and all(emitted[t] >= most for t, most in self._emitted.items())
        self.seen["ended"] += has_ended
        ones = {link.name: [1] * len(link.channels) for link in self.job.links}
        expected = rows_of_inputs(self.job, emitted, ones)
        for stage in self.job.scenario.sinks:
            accounts = [one.account for one in self.run.delivery.sinks if one.stage == stage.name]
            readers = [own for (name, _), own in self.run.readers.items() if name == stage.name]
            above = self.job.scenario.upstream(stage.name)
            rewinds = {one.replayable for one in self.job.scenario.sources if one.name in above}
            is_exact = settings is None or settings.mode != AT_LEAST_ONCE
            sums = [sum(getattr(one, name) for one in accounts) for name in _SUMS]
            if stage.guarantee != "at-most-once":
                assert sums[0] == sum(len(own.visible) for own in readers)
            if stage.guarantee == "exactly-once":
                assert sums[3] == sum(map(_staged, readers))
                if is_exact:
                    rows = [row for own in readers for row in own.visible]
                    assert len(rows) == len(set(rows))
                    assert sums[1] == 0
            if stage.guarantee == "at-most-once" and is_exact:
                assert sums[1] == 0
            if has_ended:
                rows = [row for own in readers for row in own.visible]
                self._hold_at_end(stage, sums, sum(expected[stage.name]), rows, rewinds, is_exact)

    def _hold_at_end(
        self,
        stage: Any,
        sums: list[int],
        expected: int,
        rows: list[Any],
        rewinds: set[bool],
        is_exact: bool,
    ) -> None:
        committed, twice, lost, staged = sums
        has_checkpoints = self.job.checkpoints is not None
        self.seen[stage.guarantee] += 1
        self.seen["lost"] += lost > 0
        self.seen["twice"] += twice > 0
        if stage.guarantee == "exactly-once" and not has_checkpoints:
            assert (committed, twice) == (0, 0)
            assert staged + lost == expected
            return
        assert staged == 0
        assert committed - twice + lost == expected
        if stage.guarantee == "at-most-once":
            assert twice == 0
            return
        if rewinds == {True, False}:
            return  # how many of the records of either kind were visible is not known
        is_held = self.seen["stored"] > 0 and stage.guarantee == "at-least-once"
        scenario = self.job.scenario
        if (
            rewinds == {False}
            and is_held
            and len(scenario.stages) > len([*scenario.sources, *scenario.sinks])
        ):
            return  # nor how many were of those that a checkpoint holds further up
        assert len(rows) - len(set(rows)) == twice
        if rewinds == {False}:
            self.seen["lost by a source that cannot rewind"] += lost > 0
            return
        assert lost == 0
        assert len(set(rows)) == expected
        if stage.guarantee == "exactly-once":
            self.seen["twice by barriers at least once"] += twice > 0
            assert twice == 0 or not is_exact


_SUMS = ("committed", "visible_twice", "lost", "staged")


def _staged(readers: Any) -> int:
    return len(readers.open) + sum(map(len, readers.pending.values()))


def test_every_guarantee_holds(
    random_checkpoints: ModuleType,
    random_failures: ModuleType,
    random_deliveries: ModuleType,
    follower: ModuleType,
    draw_until: Any,
) -> None:
    """The long form goes on until all has happened."""
    seen: Counter[str] = Counter()
    sought = EVENTS if IS_LONG else set[str]()

    @settings(max_examples=EXAMPLES if IS_LONG else max(3, EXAMPLES // 5))
    @given(job=random_deliveries.small_jobs(random_checkpoints, random_failures))
    def look(job: Any) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
        seen.update(Law(job, follower, random_deliveries).seen)

    draw_until(look, lambda: set(+seen) >= sought, MOST_RUNS)
    print(dict(seen))
    assert sought - set(+seen) == set()
