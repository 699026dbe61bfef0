"""Runs the three stages, kills them again and again, starts them again, and keeps count."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import rows
from deltalake import DeltaTable
from processes import StageProcess
from watch import LedgerWatch

from flowcontrol.spark.crash_points import CrashPoint

SENDER = [
    CrashPoint.AFTER_CLAIM,
    CrashPoint.BEFORE_EXCHANGE,
    CrashPoint.BEFORE_LEDGER,
    CrashPoint.AFTER_LEDGER,
    CrashPoint.BEFORE_RELEASE,
    CrashPoint.AFTER_RELEASE,
    CrashPoint.BEFORE_RETURN,
]
RECEIVER = [
    CrashPoint.AFTER_CLAIM,
    CrashPoint.BEFORE_LEDGER,
    CrashPoint.AFTER_LEDGER,
    CrashPoint.PLANNED,
]

POINTS = {
    "source": [("source", point) for point in SENDER],
    "middle": [("middle", point) for point in SENDER] + [("map", point) for point in RECEIVER],
    "sink": [("sink", point) for point in RECEIVER]
    + [("table", point) for point in ("before-table", "after-table")],
}
"""Per stage all named points, by who reaches them."""

RANDOM = {"source": ["group", "jvm"], "middle": ["group", "jvm", "planner"]}
RANDOM["sink"] = RANDOM["middle"]
"""What is killed at random times: all of a stage, or one of its processes, which ends it too."""

AHEAD = 3
"""Files of the source that wait to be read."""

LEAD = 3
"""Kills by which a stage may be ahead of another; then it is left alone, and the others get on."""

STUCK_S = 1800.0
"""A pipeline in which nothing has happened for so long has failed, s."""

WRITING = [
    CrashPoint.BEFORE_EXCHANGE,
    CrashPoint.BEFORE_LEDGER,
    CrashPoint.AFTER_LEDGER,
    CrashPoint.BEFORE_RETURN,
]
BY_BATCH = {(who, point) for who in ("source", "middle") for point in WRITING}
BY_BATCH |= {("table", "before-table"), ("table", "after-table")}
"""Points that are numbered by Spark's batches; others by the member's commits to the ledger."""

MEMBERS = {"source": [("a", "sender", "source")], "sink": [("b", "receiver", "sink")]}
MEMBERS["middle"] = [("a", "receiver", "map"), ("b", "sender", "middle")]
"""Per stage: links, its side of each, and its name there."""


class Kill(NamedTuple):
    """A kill to come, or one that has been."""

    stage: str
    who: str
    """``group``, ``jvm`` or ``planner``; at a named point who reaches it."""
    point: str | None
    """None: at a random time."""

    def __str__(self) -> str:
        """Return it in the words of the variable that asks for it."""
        return f"{self.stage}: {self.who} {self.point or 'at a random time'}"


class Stage:
    """One of the three, over all of its starts.

    Parameters
    ----------
    folder : Path
        Of the pipeline.
    name : str
        Which.
    chance : random.Random
        Where all that is random comes from.
    watches : dict of str to LedgerWatch
        Of both links.
    """

    def __init__(
        self, folder: Path, name: str, chance: random.Random, watches: dict[str, LedgerWatch]
    ) -> None:
        self.folder, self.name, self.chance, self.watches = folder, name, chance, watches
        self.starts = 0
        self.process: StageProcess | None = None
        self.armed: Kill | None = None
        self._plans = self._all_plans()
        self._due: float | None = None
        self._progress = 0
        self._is_hit = False

    def _all_plans(self) -> Iterator[Kill]:
        """Yield every named point in a new order each time, and a random kill after each."""
        while True:
            named = [Kill(self.name, who, point) for who, point in POINTS[self.name]]
            self.chance.shuffle(named)
            for plan in named:
                yield plan
                yield Kill(self.name, self.chance.choice(RANDOM[self.name]), None)

    def start(self, *, is_armed: bool) -> None:
        """Start it, with a kill to come or with none."""
        self.armed = next(self._plans) if is_armed else None
        self._is_hit, self._due, kill_at = False, None, None
        self._progress = self._commits()
        if self.armed is not None and self.armed.point is not None:
            kill_at = f"{self.armed.who}:{self._number(self.armed)}+:{self.armed.point}"
        elif self.chance.random() < 0.25:  # anywhere in its start, most of which is Spark's
            self._due = time.monotonic() + self.chance.uniform(0.5, 12.0)
        self.process = StageProcess(self.folder, self.name, self.starts, kill_at)
        self.starts += 1

    def arm(self) -> None:
        """Have a stage that runs killed at a random time."""
        self.armed = Kill(self.name, self.chance.choice(RANDOM[self.name]), None)
        self._progress = self._commits()

    def _number(self, kill: Kill) -> int:
        """Return a number that a point will reach before long."""
        if kill.point == CrashPoint.AFTER_CLAIM:
            return 0
        if (kill.who, kill.point) in BY_BATCH:
            offsets = (self.folder / f"checkpoint-{self.name}" / "offsets").glob("[0-9]*")
            last = max((int(path.name) for path in offsets), default=0)
        else:
            [side] = [side for side in MEMBERS[self.name] if side[2] == kill.who]
            last = self.watches[side[0]].last(side[1])
        return last + self.chance.randrange(4)

    def _commits(self) -> int:
        return sum(self.watches[link].count(side) for link, side, _ in MEMBERS[self.name])

    def tend(self) -> Kill | None:
        """Kill it when that is due; return a kill that is over, with nothing left of the stage."""
        assert self.process is not None
        kill, status = self.armed, self.process.status
        if status is None:
            if kill is not None and kill.point is None and not self._is_hit:
                self._strike(kill)
            return None
        assert kill is not None, f"{self.name} ended, status {status}:\n{self.process.said()}"
        if kill.point is not None or kill.who == "group":
            is_over = status == -signal.SIGKILL
        else:  # Spark ends, and with it the driver, by itself
            is_over = self._is_hit and status != 0
        assert is_over, f"{kill}: status {status}:\n{self.process.said()}"
        self.process.end()
        return kill

    def _strike(self, kill: Kill) -> None:
        """Kill at a random time: in the start, or when it has been at work for a while."""
        assert self.process is not None
        if self._due is None and self._commits() > self._progress:
            self._due = time.monotonic() + self.chance.uniform(0.0, 2.5)
        if self._due is not None and time.monotonic() > self._due:
            self._is_hit = self.process.kill(kill.who)


class Pipeline:
    """All of it.

    Parameters
    ----------
    folder : Path
        Empty.
    seed : int
        Of all that is random.
    wanted : int
        Kills.
    """

    def __init__(self, folder: Path, seed: int, wanted: int) -> None:
        self.folder, self.wanted = folder, wanted
        self.watches = {name: LedgerWatch(folder / f"link-{name}") for name in "ab"}
        self.lead = min(LEAD, wanted // 6)  # so that each stage is killed
        chance = random.Random(seed)
        self.stages = [
            Stage(folder, name, random.Random(chance.random()), self.watches) for name in POINTS
        ]
        self.kills: list[Kill] = []
        self.rows = self._files = 0
        self._began = self._moved = time.monotonic()
        self._seen = 0
        (folder / "input").mkdir()

    def run(self) -> None:
        """Run until all kills are done and all rows have arrived, then end all stages."""
        self._feed()
        for stage in self.stages:
            self._start(stage)
        while len(self.kills) < self.wanted:
            self._go_on()
            self._feed()
        self.say(f"no kill more; {self.rows} rows must arrive")
        while self.arrived() < self.rows:
            self._go_on()
        self._end()

    def _go_on(self) -> None:
        time.sleep(0.1)
        for watch in self.watches.values():
            watch.look()
        for stage in self.stages:
            kill = stage.tend()
            if kill is not None:
                self.kills.append(kill)
                self.say(f"{len(self.kills)} of {self.wanted}: {kill}")
                self._start(stage)
            elif stage.armed is None and self._may_arm(stage):
                stage.arm()
        self._check_moving()

    def _start(self, stage: Stage) -> None:
        stage.armed = None
        stage.start(is_armed=self._may_arm(stage))

    def _may_arm(self, stage: Stage) -> bool:
        """Whether a stage may be killed once more."""
        if self.wanted < len(POINTS) and stage.name != "middle":
            return False  # the one that both sends and receives
        armed = sum(other.armed is not None for other in self.stages)
        counts = Counter(kill.stage for kill in self.kills)
        is_ahead = counts[stage.name] > min(counts[name] for name in POINTS) + self.lead
        return not is_ahead and len(self.kills) + armed < self.wanted

    def _check_moving(self) -> None:
        seen = sum(len(watch.commits) for watch in self.watches.values()) + len(self.kills)
        if seen > self._seen:
            self._seen, self._moved = seen, time.monotonic()
        if time.monotonic() - self._moved > STUCK_S:
            said = [f"{stage.name}, {stage.armed}: {stage.process.said()}"
                    for stage in self.stages if stage.process]  # fmt: skip
            raise AssertionError(f"nothing for {STUCK_S} s:\n" + "\n".join(said))

    def _feed(self) -> None:
        """Keep some files ahead of the source."""
        written = self.watches["a"].states.get("sender/source", {"records": [0]})["records"]
        while self.rows - sum(written) < AHEAD * rows.ROWS_PER_FILE:
            self.rows = rows.write_file(self.folder / "input", self._files)
            self._files += 1

    def arrived(self) -> int:
        """Return how many rows the sink's table has."""
        path = str(self.folder / "table")
        if not DeltaTable.is_deltatable(path):
            return 0
        return int(DeltaTable(path).to_pyarrow_dataset().count_rows())

    def _end(self) -> None:
        """Ask all stages to end, and take notice of their last commits."""
        for stage in self.stages:
            assert stage.process is not None
            stage.process.ask_to_end()
        for stage in self.stages:
            assert stage.process is not None
            status = stage.process.process.wait(STUCK_S)
            assert status == 0, f"{stage.name} ended, status {status}:\n{stage.process.said()}"
        for watch in self.watches.values():
            watch.look()
        self.say("all stages have ended")

    def kill_all(self) -> None:
        """Leave no process behind."""
        for stage in self.stages:
            if stage.process is not None:
                stage.process.end()

    def say(self, text: str) -> None:
        """Print a line, with the time."""
        print(f"{time.monotonic() - self._began:7.1f} s  {text}", flush=True)
