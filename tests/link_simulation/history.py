"""One history of a link: what a seed makes of it, and what must hold after it."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

from flowcontrol.errors import DamagedError, FencedError, FlowControlError
from flowcontrol.ledger import commit, link_ledger
from flowcontrol.ledger import log as log_module
from flowcontrol.ledger.storage import Storage
from flowcontrol.link import altering
from flowcontrol.link.settings import DEFAULTS, FILE, LinkSettings

from . import checks
from .files import DISK, HOUR_S, STORE, UNLINKED, Files, Likely
from .machine import BUCKET, ROOT, World
from .queries import ConcurrentError, Query, ReceiverQuery, Row, SenderQuery
from .scheduler import Process, Scheduler

MOST_CALLS = 100_000
"""Calls after which a history is stuck; one has some 700."""

QUIET_S = 1.3
"""Time without a commit after which all is over: who was cut off from a log finds out before."""

CHECK_EVERY_S = 0.5
"""How often a member looks whether it was cut off: a second, in the product."""

SCHEMA_TEXT = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": "long", "nullable": True, "metadata": {}}
            for name in ("source", "number", "key", "time")
        ],
    }
)


class History:
    """A link, its queries, and what befalls them.

    - ``is_calm``: whether no more faults come: all goes to its end.
    """

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.seed = seed
        self.chance = chance = random.Random(seed)
        self.is_calm = False
        self.met: Counter[str] = Counter()
        self.removed: set[str] = set()
        self._quiet_s, self._moved_at = QUIET_S, 0.0
        self._seen = -1
        kind = chance.choice((DISK, DISK, DISK, STORE, STORE, UNLINKED))
        switch = chance.choice((0.02, 0.05, 0.15, 0.5))
        self.scheduler = Scheduler(chance, switch, MOST_CALLS)
        every = chance.choice((60.0, 150.0, 400.0, 1000.0, 0.0))
        likely = Likely(
            *(chance.choice((0.0, 1.0, 3.0)) for _ in range(6)), stop=chance.random() * 0.3
        )
        self.files = Files(self.scheduler, kind, likely, every)
        self.files.on_freeze = self._replace_frozen
        self.files.met = self.met
        if is_traced:
            self.files.trace = []
        self.place = BUCKET if kind == STORE else ROOT
        self.link_file = f"{self.place.removeprefix('s3://')}/{FILE}"
        self.processes: dict[int, Process] = {}
        self._plan()

    # ------------------------------------------------------------------ the plan

    def _plan(self) -> None:
        chance = self.chance
        channels = chance.choice((1, 2, 2, 3))
        self.given: dict[str, Any] = {
            "channels": channels,
            "buffer_bytes": 1024,
            "exclusive_buffers": chance.choice((1, 1, 2)),
            "floating_buffers": chance.choice((0, 1, 3)),
            "spill_bytes": chance.choice((0, 0, 0, 2000)),
            "max_pool_bytes": chance.choice((None, None, 20_000)),
            "detach_after_bytes": chance.choice((None,) * 7 + (3000,)),
        }
        if chance.random() < 0.7:
            self.given["key"] = ("key",)
        if chance.random() < 0.1:
            self.given |= {"event_time_column": "time", "align_s": 5.0, "idle_after_s": 1.0}
            self._quiet_s = 3.0  # whoever is ahead waits until the others count as idle
        from flowcontrol.link.settings import schema_of

        self.schema_text = SCHEMA_TEXT
        self.schema = schema_of(SCHEMA_TEXT)
        self.settings = LinkSettings("simulated", schema=SCHEMA_TEXT, **{**DEFAULTS, **self.given})
        self.agrees = chance.random() < 0.1
        self.checkpoint_every = chance.choice((3, 8, 25))
        self.pack = chance.choice((4, 64))
        names = ("a", "b")[: chance.choice((1, 1, 1, 1, 2))]
        self.senders = [
            SenderQuery(self, name, self._batches(name), is_connect=chance.random() < 0.15)
            for name in names
        ]
        parts = [("main", "")]
        if channels > 1 and chance.random() < 0.12:
            parts = [("main", "0"), ("main", ",".join(map(str, range(1, channels))))]
        if chance.random() < 0.15:
            parts.append(("other", ""))
        self.receivers = [ReceiverQuery(self, name, own) for name, own in parts]
        self.first_settings = [self.settings]

    def _batches(self, name: str) -> list[list[Row]]:
        chance, number, found = self.chance, 0, []
        many = chance.random() < 0.15  # then files are trimmed while others come
        self.join_share = 0.8 if many else 0.12
        for _ in range(5 if many else chance.choice((1, 1, 2, 2, 3))):
            rows = []
            for _ in range(1 if many else chance.choice((0, 1, 2, 3, 6))):
                size = chance.choice((10, 100, 300, 300, 600, 1000, 2500))
                rows.append(Row(name, number, chance.randrange(4), size))
                number += 1
            found.append(rows)
        return found

    def storage(self) -> Storage:
        return Storage(self.place)

    # ------------------------------------------------------------------ processes

    def _process(self, name: str) -> Process:
        pid = len(self.processes) + 1
        host = self.chance.choice(("one", "one", "two"))
        process = self.processes[pid] = Process(f"{name}#{pid}", pid, host)
        if self.chance.random() < 0.2:
            process.wall_s = self.chance.choice((-30.0, 30.0, 1000.0)) * self.chance.random()
        return process

    def start(self, query: Query) -> None:
        """Start a query, or start it again."""
        process = query.process = self._process(query.name)
        process.on_end = lambda error: self._ended(query, process, error)
        self.scheduler.spawn(process, query.run, is_main=True)

    def _ended(self, query: Query, process: Process, error: BaseException | None) -> None:
        """Judge how a process ended, and start its query again."""
        self.files.note(f"ends: {type(error).__name__}: {error}")
        if isinstance(error, Exception):
            self._judge(query, process, error)
        if query.process is process and not query.is_out:
            moment = self.scheduler.now + self.chance.choice((0.01, 0.5, 5.0))
            self.scheduler.at(moment, lambda: self._start_again(query, process))

    def _start_again(self, query: Query, process: Process) -> None:
        if query.process is process:
            self.start(query)

    def _judge(self, query: Query, process: Process, error: Exception) -> None:
        if isinstance(error, FencedError):
            self.met["a process was fenced"] += 1
        elif isinstance(error, ConcurrentError):
            self.met["two queries on one checkpoint"] += 1
        elif isinstance(error, DamagedError):
            assert process.is_hurt, f"{process.name} calls damaged what is whole: {error}"
        elif isinstance(error, FlowControlError):
            assert str(error)
            self.met["an error with a message"] += 1
        elif isinstance(error, OSError) and process.is_hurt:
            self.met["the storage's own error"] += 1
        else:
            raise error

    def _replace_frozen(self, process: Process) -> None:
        """Start another process in the place of one that is thought dead."""
        if self.chance.random() < 0.4:
            return
        for query in (*self.senders, *self.receivers):
            if query.process is process:
                delay = self.chance.choice((0.01, 0.3, 3.0))
                self.met["a zombie"] += 1
                again = partial(self._start_again, query, process)
                self.scheduler.at(self.scheduler.now + delay, again)

    # ------------------------------------------------------------------ what else happens

    def _plan_events(self) -> None:
        chance, now = self.chance, self.scheduler.now
        if chance.random() < self.join_share:
            self.scheduler.at(now + chance.random() * chance.choice((0.5, 3)), self._join)
        if chance.random() < 0.1:
            self.scheduler.at(now + chance.random() * 3, self._alter)
        if len(self.receivers) > 1 and chance.random() < 0.1:
            self.scheduler.at(now + chance.random() * 3, self._remove)
        if chance.random() < 0.1:  # two starts at once
            query = chance.choice((*self.senders, *self.receivers))
            self.scheduler.at(now + chance.random() * 2, lambda: self.start(query))
        if self.files.kind != UNLINKED and chance.random() < 0.3:
            self.scheduler.at(now + chance.random() * 2, self._pass)
        self.calm_at = now + chance.choice((1.0, 4.0, 20.0))
        self.scheduler.at(now + 0.5, self._look)

    def _pass(self) -> None:
        """Let much time pass in which nobody does anything; who is frozen stays so."""
        seconds = self.chance.choice((70.0, 200.0, 2 * HOUR_S))
        self.met["much time passed"] += 1
        self.files.note(f"{seconds} s pass")
        for process in self.processes.values():
            if process.frozen_until > self.scheduler.now:
                process.frozen_until += seconds
        self.scheduler.now += seconds
        self.calm_at += seconds
        self._moved_at += seconds
        if self.chance.random() < 0.5:
            self.scheduler.at(self.scheduler.now + self.chance.random(), self._pass)

    def _join(self) -> None:
        late = ReceiverQuery(self, "late", "")
        late.is_late = True
        self.met["a receiver joined"] += 1
        self.receivers.append(late)
        self.start(late)

    def _operate(self, what: str, act: Any) -> None:
        """Have a command run in a process of its own."""
        process = self._process(what)

        def ended(error: BaseException | None) -> None:
            self.files.note(f"ends: {type(error).__name__}: {error}")
            is_told = isinstance(error, OSError) and process.is_hurt
            if isinstance(error, Exception) and not (
                is_told or isinstance(error, FlowControlError)
            ):
                raise error

        process.on_end = ended
        self.scheduler.spawn(process, act, is_main=True)

    def _alter(self) -> None:
        chance, given = self.chance, dict[str, Any]()
        if self.agrees:  # a sender that states the settings of before would be refused
            return
        reads_all = all("channels" not in one.options for one in self.receivers)
        if reads_all and chance.random() < 0.6:
            given["channels"] = self.settings.channels + 1
        else:
            given["floating_buffers"] = chance.choice((0, 2, 4))
            given["exclusive_buffers"] = chance.choice((1, 2, 3))
        self.met["settings were altered"] += 1
        self.first_settings.append(replace(self.settings, **given))
        self._operate("alter", lambda: altering.alter(self.storage(), self.settings, given))

    def _remove(self) -> None:
        gone = self.receivers[-1]
        if sum(one.group == gone.group for one in self.receivers) > 1:
            return
        self.met["a receiver was removed"] += 1
        self.removed.add(gone.name)
        self._operate(
            "remove", lambda: altering.remove_receiver(self.storage(), gone.group, force=True)
        )

    def _be_calm(self) -> None:
        """Let no more faults come; whoever is dead is started again."""
        self.is_calm = True
        self.files.be_calm()
        for process in self.processes.values():
            process.frozen_until = min(process.frozen_until, self.scheduler.now + 5.0)

    def _look(self) -> None:
        """End the history when nobody has anything left to do; let it go to its end before."""
        if not self.is_calm and (self.scheduler.now > self.calm_at or self._has_all()):
            self._be_calm()
        is_read = all(one.is_out for one in self.receivers)
        is_settled = is_read or all(one.is_settled for one in self.senders)
        if self.is_calm and is_settled and self._has_all():
            self.scheduler.is_over = True
        else:
            self.scheduler.at(self.scheduler.now + 0.3, self._look)

    @property
    def moved(self) -> int:
        """How often anything has gone on."""
        return len(self.files.commits)

    def first_group(self) -> str:
        """Return the receiver's name that came first: it begins at the first row."""
        for path, content in sorted(self.files.commits):
            if "/ledger/" in path:
                for line in content.splitlines():
                    add = json.loads(line).get("add")
                    member = json.loads(add["stats"])["member"] if add else ""
                    if member.startswith("receiver/"):
                        return member.split("/")[1]
        return ""

    def _has_all(self) -> bool:
        """Whether all was sent, and receivers have looked in vain since; nobody is frozen."""
        if self._seen != self.moved:
            self._seen, self._moved_at = self.moved, self.scheduler.now
        active = [one for one in self.receivers if not one.is_out]
        if not active:  # each sender has cut off another: nobody is left to read
            return True
        return self.scheduler.now >= self._moved_at + self._quiet_s and (
            all(one.is_done for one in self.senders)
            and all(one.seen == self.moved for one in active)
            and not any(
                one.process.is_dead or one.process.frozen_until > self.scheduler.now
                for one in (*self.senders, *active)
            )
        )

    # ------------------------------------------------------------------ run

    def run(self) -> Counter[str]:
        """Run the history; return how often it met what it is there for."""
        World.files, World.scheduler, World.processes = self.files, self.scheduler, self.processes
        World.count = 0
        commit.CHECKPOINT_EVERY = self.checkpoint_every  # type: ignore[misc]
        link_ledger.PACK = self.pack  # type: ignore[misc]
        log_module.CHECK_EVERY_S = log_module.LIST_EVERY_S = CHECK_EVERY_S  # type: ignore[misc]
        if not self.agrees:
            self.files.put(self.link_file, self.settings.to_json().encode())
        for query in (*self.senders, *self.receivers):
            if query is self.senders[0] or self.chance.random() < 0.7:
                self.start(query)
            else:
                moment = self.scheduler.now + self.chance.random()
                self.scheduler.at(moment, partial(self.start, query))
        self._plan_events()
        self.scheduler.run()
        checks.check(self)
        self.met["calls"] = self.scheduler.calls
        self.met["switches"] = self.scheduler.switches
        return self.met
