"""A pipeline of real processes without Spark, which faults befall several at a time."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import faulty_rows as rows
from faulty_checks import Columns, SinkCheck
from faulty_disk import Disk
from faulty_member import CONFLICT, NAMED, RAW, Start, main, open_link

from flowcontrol.errors import FlowControlError
from flowcontrol.ledger.link_ledger import LinkLedgerView
from flowcontrol.link.link import Link
from flowcontrol.link.members import senders_of

SENDERS = ("a", "b")


def settings(chance: random.Random) -> dict[str, Any]:
    """Return settings with so few buffers that somebody waits all the time."""
    return {
        "channels": rows.CHANNELS,
        "exclusive_buffers": chance.randint(1, 3),
        "floating_buffers": chance.randint(1, 6),
        "buffer_bytes": chance.choice([1024, 2048, 4096]),
    }


AHEAD = 60
"""Rows that each source has in store."""

STUCK_S = 1800.0
"""A pipeline in which nothing has happened for so long has failed, s."""

ERRORS_IN_A_ROW = 8
"""Errors of one member, each after the remedies, from which they count as useless."""

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["faulty_member", "flowcontrol.link.receiver"])


class Condition(Protocol):
    """Something that a fault has left, and that can be mended."""

    kind: str

    def mend(self) -> None:
        """Apply the remedy that the documentation names."""


class Member:
    """A query over all of its starts."""

    def __init__(
        self, folder: Path, kind: str, name: str, place: str, options: dict[str, Any]
    ) -> None:
        self.folder, self.kind, self.name, self.place = folder, kind, name, place
        self.options = options
        self.own = folder / place
        self.own.mkdir()
        self.process: Any = None
        self.zombies: list[Any] = []
        self.is_stopped = self.is_removed = False
        self.errors_in_a_row = 0
        self.newest: Path | None = None
        """Copy of its checkpoint, while that is an earlier one."""

    @property
    def checkpoint(self) -> Path:
        return self.own / "checkpoint"

    @property
    def done(self) -> int:
        """The last batch that its checkpoint calls done."""
        return last_done(self.checkpoint)

    def start(self, kill_at: str = "") -> None:
        given = Start(self.kind, self.folder, self.name, self.place, self.options, kill_at)
        self.process = CONTEXT.Process(target=main, args=(given,), daemon=True)
        self.process.start()
        self.is_stopped = False

    def send(self, number: int) -> bool:
        """Send a signal; False if there is nobody."""
        if self.process is None or not self.process.is_alive():
            return False
        os.kill(self.process.pid, number)
        return True

    def kill(self) -> None:
        """Kill it and wait for its end."""
        self.send(signal.SIGKILL)
        if self.process is not None:
            self.process.join()

    def use_newest(self) -> None:
        """Use the newest checkpoint, as an error about an earlier one asks for."""
        if self.newest is not None and self.done < last_done(self.newest):
            shutil.rmtree(self.checkpoint)
            shutil.copytree(self.newest, self.checkpoint)
        self.newest = None

    def errors(self) -> list[dict[str, str]]:
        """Return the errors that were raised since the last time."""
        found = []
        for path in self.own.glob("error-*"):
            found.append(json.loads(path.read_text()))
            path.unlink()
        return found

    def said(self, most: int = 5000) -> str:
        with suppress(FileNotFoundError):
            return (self.own / "log").read_text(errors="replace")[-most:]
        return ""


def raw_error(said: str) -> str:
    """Return where a traceback left our code, and its error."""
    lines = said.rpartition("Traceback (most recent")[2].splitlines()
    places = [i for i, line in enumerate(lines) if "/flowcontrol/" in line]
    last = places[-1] if places else 0
    errors = next((i for i in range(last, len(lines)) if not lines[i].startswith(" ")), last)
    return "\n".join([lines[last].strip(), lines[last + 1].strip(), *lines[errors:]])


def last_done(checkpoint: Path) -> int:
    """Return the last batch that a checkpoint calls done; -1 if none is."""
    names = [path.name for path in (checkpoint / "commits").glob("[0-9]*")]
    return max(map(int, names), default=-1)


class Pipeline:
    """Two senders and receivers of one link.

    Parameters
    ----------
    folder : Path
        Empty.
    seed : int
        Of all that is random here; the members' timing is theirs.

    Attributes
    ----------
    conditions : list of Condition
        What is broken now.
    causes : set of str
        Kinds of faults that may have led to an error since the last quiet time.
    errors : Counter
        By type and first words of the message.
    raw : Counter
        Errors that are not ours, by the end of what was printed.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.disk = Disk(folder)
        self.link = folder / "disk" / "link"
        self.began = time.monotonic()
        Link(self.link, schema=rows.BASE, **settings(self.chance))
        (folder / "sources").mkdir()
        self.sources: dict[str, Any] = {name: {"rows": 0, "columns": []} for name in SENDERS}
        self.members: list[Member] = []
        self.checks: dict[str, SinkCheck] = {}
        self.conditions: list[Condition] = []
        self.causes: set[str] = set()
        self.errors: Counter[tuple[str, str, str]] = Counter()
        self.raw: Counter[str] = Counter()
        self.conflicts = self.restarts = self.columns = self._numbers = 0
        self.late: list[Member] = []
        self.retired: list[Member] = []
        self.removed = 0
        self.notes: list[str] = []

    def begin(self) -> None:
        """Start the members, and wait until they have taken what there is."""
        everything = list(range(rows.CHANNELS))
        self.add_receiver("main", "main", everything)
        self.add_receiver("pair", "pair-01", [0, 1], channels="0,1")
        self.add_receiver("pair", "pair-23", [2, 3], channels="2,3", delay_s=0.05)
        while not all((member.own / "began.json").exists() for member in self.members):
            self.tend()  # whoever registers when rows have gone by begins behind them
            time.sleep(0.02)
        for name in SENDERS:
            self.add("sender", name, name)
        self.feed()
        self.settle()
        self._note_indices()

    def _note_indices(self) -> None:
        from flowcontrol.ledger.storage import Storage

        view = LinkLedgerView(Storage(self.link / "ledger"))
        view.refresh()
        found = {sender.name: sender.number for sender in senders_of(view)}
        (self.folder / "indices.json").write_text(json.dumps(found))

    # ------------------------------------------------------------------ members

    def add(self, kind: str, name: str, place: str, **options: Any) -> Member:
        member = Member(self.folder, kind, name, place, options)
        self.members.append(member)
        if kind == "sender":
            self.write_source(name)
        member.start()
        return member

    def add_receiver(
        self, name: str, place: str, reads: list[int], *, is_late: bool = False, **options: Any
    ) -> Member:
        member = self.add("receiver", name, place, **options)
        self.checks[place] = SinkCheck(member.own, reads, is_late=is_late)
        return member

    @property
    def senders(self) -> list[Member]:
        return [member for member in self.members if member.kind == "sender"]

    @property
    def receivers(self) -> list[Member]:
        return [member for member in self.members if member.kind == "receiver"]

    def write_source(self, name: str) -> None:
        path = self.folder / "sources" / name
        hidden = path.with_name(f".{name}")
        hidden.write_text(json.dumps(self.sources[name]))
        hidden.replace(path)

    def feed(self) -> None:
        """Keep some rows in store for each source."""
        for member in self.senders:
            source = self.sources[member.name]
            offsets = [path.name for path in (member.checkpoint / "offsets").glob("[0-9]*")]
            planned = 0
            if offsets:
                with suppress(FileNotFoundError):  # it is being put back
                    last = member.checkpoint / "offsets" / max(offsets, key=int)
                    planned = json.loads(last.read_text())["end"]
            if source["rows"] - planned < AHEAD:
                source["rows"] = planned + AHEAD + self.chance.randrange(AHEAD)
                self.write_source(member.name)

    def more_rows(self, member: Member) -> None:
        """Let a source have more rows at once, as new files come."""
        if member.kind == "sender":
            self.sources[member.name]["rows"] += self.chance.randint(1, AHEAD)
            self.write_source(member.name)

    def numbered(self) -> int:
        """Return a number that was not given before."""
        self._numbers += 1
        return self._numbers

    def remove_retired(self) -> None:
        """Remove the receivers that are to go, as the documentation says."""
        for member in self.retired:
            member.send(signal.SIGCONT)
            if not member.is_removed:
                try:
                    open_link(self.folder).remove_receiver(member.name, force=True)
                except FlowControlError as error:
                    self.errors[type(error).__name__, "removal", self._shape(str(error))] += 1
                    assert self.causes - {"removed"}, f"{member.place} cannot be removed: {error}"
                    self.mend()
                    continue
                member.is_removed = True
                self.note(f"removed {member.place}")
            if not member.process.is_alive():
                self._bury(member, member.process)
                self.removed += 1
        self.retired = [m for m in self.retired if not m.is_removed or m.process.is_alive()]

    def note(self, text: str) -> None:
        """Keep what was done, for whoever must find out why something failed."""
        self.notes.append(f"{time.monotonic() - self.began:.2f} {text}")

    # ------------------------------------------------------------------ what happens to them

    def run(self, seconds: float) -> None:
        """Let the pipeline go on for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.feed()
            self.tend()
            time.sleep(0.02)

    def tend(self) -> None:
        """Start again whoever has ended, with the remedies if it was an error."""
        for member in list(self.members):
            self.tend_one(member)

    def tend_one(self, member: Member, *, start: bool = True) -> None:
        """Take note of its ends, and start it again."""
        for zombie in [z for z in member.zombies if not z.is_alive()]:
            self._bury(member, zombie)
            member.zombies.remove(zombie)
        if not member.process.is_alive():
            if start:
                self._start_again(member)
            else:
                self._bury(member, member.process)

    def _start_again(self, member: Member) -> None:
        status = member.process.exitcode
        self._bury(member, member.process)
        if status in (NAMED, RAW):
            member.errors_in_a_row += 1
            assert member.errors_in_a_row < ERRORS_IN_A_ROW, (
                f"{member.place}: the remedies do not help: {self.errors.most_common(5)}\n"
                f"open: {[c.kind for c in self.conditions]}, causes {self.causes}"
            )
            self.mend()
            member.use_newest()
        elif member.newest is not None and member.done > last_done(member.newest):
            member.newest = None  # it has gone on without
        member.start()
        self.restarts += 1

    def _bury(self, member: Member, process: Any) -> None:
        """Take note of an end; whatever is neither a kill nor an error of ours is a finding."""
        status = process.exitcode
        for error in member.errors():
            if "from_start" in error["text"]:
                member.options.pop("from_start", None)
            self.errors[error["type"], member.kind, self._shape(error["text"])] += 1
            assert self.causes, f"{member.place}: an error although nothing was broken: {error}"
        self.conflicts += status == CONFLICT
        if status == RAW:
            said = member.said().rstrip()
            self.raw[raw_error(said)] += 1
            assert "AssertionError" not in said.splitlines()[-1], said
        expected = (0, NAMED, RAW, CONFLICT, -signal.SIGKILL, -signal.SIGTERM)
        assert status in expected, f"{member.place} ended, status {status}:\n{member.said()}"

    def _shape(self, text: str) -> str:
        """Return what errors of one kind have in common."""
        text = text.replace(f"{self.link}/", "").replace(str(self.link), "")
        return re.sub(r"[0-9a-f]{8,}|[0-9]+", "N", text)[:200]

    def mend(self) -> None:
        """Apply the remedies of all that is broken."""
        conditions, self.conditions = self.conditions, []
        for condition in conditions:
            condition.mend()

    def wake(self) -> None:
        """Let all that was stopped go on."""
        for member in self.members:
            for process in member.zombies:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGCONT)
            if member.is_stopped:
                member.send(signal.SIGCONT)
                member.is_stopped = False

    # ------------------------------------------------------------------ checks

    def settle(self) -> None:
        """Mend everything, wait until all rows have arrived, and check them."""
        self.mend()
        self.wake()
        seen, moved = self._progress(), time.monotonic()
        while True:
            self.tend()
            self.remove_retired()
            if self.look() == 0 and not self.retired:
                break
            if self._progress() != seen:
                seen, moved = self._progress(), time.monotonic()
            said = "\n".join(f"{m.place}: {m.said(1500)}" for m in self.members)
            assert time.monotonic() - moved < STUCK_S, (
                f"nothing for {STUCK_S} s, missing {self._missing()}; {self.errors}\n{said}"
            )
            time.sleep(0.05)
        for member in self.members:
            member.errors_in_a_row, member.newest = 0, None
            for zombie in member.zombies:
                zombie.kill()
                zombie.join()
            member.zombies.clear()
        self.causes.clear()

    def look(self) -> int:
        """Check what the sinks have got; return the rows that are still to come."""
        upto = {name: source["rows"] for name, source in self.sources.items()}
        columns = {member.name: self._columns(member) for member in self.senders}
        for member in self.receivers:
            self.checks[member.place].look(columns, upto)
        return sum(self._missing().values())

    def _missing(self) -> dict[str, int]:
        upto = {name: source["rows"] for name, source in self.sources.items()}
        return {m.place: self.checks[m.place].missing(upto) for m in self.receivers}

    def _columns(self, member: Member) -> Columns:
        """Return from which row on a sender's rows may have had which columns.

        A batch that runs again when its checkpoint was put back may have other columns; those of
        its first run count if its rows were in the link.
        """
        plans = member.checkpoint
        if member.newest is not None and member.done <= last_done(member.newest):
            plans = member.newest
        found: dict[int, list[list[str]]] = {}
        for folder in (plans, member.own / "newest"):
            for path in (folder / "offsets").glob("[0-9]*"):
                offset = json.loads(path.read_text())
                if folder == plans or offset["start"] in found:
                    choices = found.setdefault(offset["start"], [])
                    choices += [] if offset["columns"] in choices else [offset["columns"]]
        return sorted(found.items()) or [(0, [[]])]

    def _progress(self) -> tuple[int, ...]:
        return (self.restarts, *(member.done for member in self.members))

    @property
    def checked(self) -> int:
        """Rows that were checked in all sinks."""
        return sum(check.rows for check in self.checks.values())

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:7.1f} s  {text}", flush=True)

    def close(self) -> None:
        """Leave no process and no file system behind."""
        for member in [*self.members, *self.retired]:
            for process in [*member.zombies, member.process]:
                if process is not None:
                    process.kill()
                    process.join()
        self.disk.close()


def copy_of(folder: Path, target: Path) -> Path:
    """Copy a checkpoint as it stands, whatever is being written in it."""
    shutil.rmtree(target, ignore_errors=True)
    for log in ("commits", "offsets"):  # as a copy may catch it: never done before planned
        (target / log).mkdir(parents=True)
        for path in (folder / log).glob("[0-9]*"):
            shutil.copy(path, target / log)
    return target
