"""What goes wrong in bench/orders.py, and when: kills, throws, a new column; all from one seed.

Faults come when a drawn share of the orders is in the sink. A kill is SIGKILL of the application's
whole process group, JVM and Python workers included, a random while after it was seen in a batch.
One that hit no batch, as it had just ended, is followed by another.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orders_members import Notes

MEMBERS = Path(__file__).with_name("orders_members.py")
ROOT = MEMBERS.parents[1]

SPANS = {
    "up": [(0.05, 0.2), (0.6, 0.75)],
    "down": [(0.2, 0.35), (0.75, 0.9)],
    "throw": [(0.05, 0.2), (0.6, 0.75)],
}
"""Between which shares of the orders each fault comes: kills of each application, throws of the
sink, of which there are two. The orders change half way."""

WHILE_S = 3.0
"""A kill comes at most this long after the application was seen in a batch."""

STUCK_S = 600.0
"""A run in which no note was added for so long has failed."""


@dataclass(frozen=True)
class Settings:
    """Of a run.

    Attributes
    ----------
    rows : int
        Orders; the second half has the new column.
    rate : float
        Rows a second of what the sink does beside writing its table.
    target_s : float
        Of a receiver's micro-batch.
    channels : int
        Of the link.
    seed : int
        Of the faults.
    spans : dict of str to list of (float, float)
        Between which shares of the orders they come.
    """

    rows: int
    rate: float
    target_s: float
    channels: int = 8
    seed: int = 0
    spans: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: SPANS)

    @property
    def arguments(self) -> list[str]:
        """For the applications."""
        found = {"rate": self.rate, "target": self.target_s, "channels": self.channels}
        return [word for name, value in found.items() for word in (f"--{name}", str(value))]


class Application:
    """One of the two as a process group of its own.

    Parameters
    ----------
    base : Path
        Folder of the run.
    role : str
        Which.
    arguments : list of str
        More arguments.
    environment : dict of str to str
        Of the process, beside this one's.
    """

    def __init__(
        self, base: Path, role: str, arguments: list[str], environment: dict[str, str]
    ) -> None:
        self.role, self.notes = role, base / f"{role}.jsonl"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR"):
            environment.pop(name, None)  # another session's
        command = [sys.executable, str(MEMBERS), role, "--base", str(base), *arguments]
        with (base / f"{role}.log").open("a") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.log = base / f"{role}.log"

    def has_ended(self) -> bool:
        """Whether it has ended well.

        Raises
        ------
        RuntimeError
            If it has failed, with what it said.
        """
        status = self.process.poll()
        if status:
            said = self.log.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"{self.role} ended, status {status}:\n{said}")
        return status == 0

    def kill(self) -> None:
        """End it and its JVM as a power cut would."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Follower:
    """Reads an application's notes as they come.

    Attributes
    ----------
    rows : dict of int to int
        Of each batch of the sink that has ended.
    is_in_batch : bool
        Whether a batch has begun and not ended.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.rows, self.is_in_batch = path, dict[int, int](), False
        self._done = 0

    def look(self) -> bool:
        """Read what is new; whether there was anything."""
        if not self.path.exists():
            return False
        with self.path.open() as file:
            file.seek(self._done)
            text = file.read()
        lines = text[: text.rfind("\n") + 1]
        self._done += len(lines)
        for line in lines.splitlines():
            note = json.loads(line)
            if note["what"] in ("begin", "end", "start", "threw"):
                self.is_in_batch = note["what"] == "begin"
            if note["what"] == "end" and note["rows"] is not None:
                self.rows[note["batch"]] = note["rows"]
        return bool(lines)


class Run:
    """The whole way of the orders.

    Parameters
    ----------
    base : Path
        Its folder; the orders are in ``orders`` and, those with the new column, in ``later``.
    settings : Settings
        Of the run.
    environment : dict of str to str, optional
        Of the applications, beside this process's.
    """

    def __init__(
        self, base: Path, settings: Settings, environment: dict[str, str] | None = None
    ) -> None:
        self.base, self.settings, self.environment = base, settings, environment or {}
        self.notes = Notes(base / "run.jsonl")
        self._chance = random.Random(settings.seed)
        self._due = {
            kind: [self._chance.uniform(*span) for span in spans]
            for kind, spans in settings.spans.items()
        }
        self._throws = ["before", "after"]
        self._strike_at: dict[str, float] = {}
        self._applications: dict[str, Application] = {}
        self._followers: dict[str, Follower] = {}

    def run(self) -> None:
        """Run until all orders are in the sink."""
        self.notes.add("run", seed=self.settings.seed, due=self._due)
        try:
            self._start("down", "down")
            for role in ("up", "up-wide"):
                if role == "up-wide":
                    self._bring_later()
                self._start("up", role)
                while not self._applications["up"].has_ended():
                    self._go_on()
            while self.taken < self.settings.rows:
                self._go_on()
            (self.base / "stop").touch()
            while not self._applications["down"].has_ended():
                time.sleep(0.1)
        finally:
            for application in self._applications.values():
                application.kill()
        self.notes.add("done", **self.link_state())

    @property
    def taken(self) -> int:
        """Rows of the batches that the sink has ended."""
        return sum(self._followers["down"].rows.values())

    def _start(self, who: str, role: str) -> None:
        self._applications[who] = Application(
            self.base, role, self.settings.arguments, self.environment
        )
        self._followers.setdefault(role, Follower(self.base / f"{role}.jsonl"))
        self._moved = time.monotonic()
        self.notes.add("started", who=who, role=role)

    def _bring_later(self) -> None:
        """Let the orders with the new column come."""
        for file in sorted((self.base / "later").glob("*.parquet")):
            file.rename(self.base / "orders" / file.name)
        self.notes.add("changed", **self.link_state())

    def _go_on(self) -> None:
        time.sleep(0.02)
        for follower in self._followers.values():
            if follower.look():
                self._moved = time.monotonic()
        if time.monotonic() - self._moved > STUCK_S:
            logs = "\n".join(a.log.read_text()[-2000:] for a in self._applications.values())
            raise RuntimeError(f"nothing for {STUCK_S} s:\n{logs}")
        self._applications["down"].has_ended()
        share = self.taken / self.settings.rows
        if self._due["throw"] and share >= self._due["throw"][0]:
            self._due["throw"].pop(0)
            (self.base / f"throw-{self._throws.pop(0)}").touch()
        for who, due in self._due.items():
            if who in self._applications and due and share >= due[0]:
                self._strike(who)

    def _strike(self, who: str) -> None:
        """Kill an application a random while after it was seen in a batch."""
        application = self._applications[who]
        follower = self._followers[application.role]
        if who not in self._strike_at:
            if follower.is_in_batch and application.process.poll() is None:
                wait_s = self._chance.uniform(0, min(WHILE_S, 1.5 * self.settings.target_s))
                self._strike_at[who] = time.monotonic() + wait_s
            return
        if time.monotonic() < self._strike_at[who]:
            return
        del self._strike_at[who]
        if application.process.poll() is not None:
            return  # it was quicker, and the next one of its kind starts
        application.kill()
        follower.look()
        hit, follower.is_in_batch = follower.is_in_batch, False
        self.notes.add("killed", who=who, in_batch=hit, **self.link_state())
        if hit:
            self._due[who].pop(0)
        self._start(who, application.role)

    def link_state(self) -> dict[str, Any]:
        """Return how far the link has trimmed its log, and its ledger's newest checkpoint."""
        from deltalake import DeltaTable

        from flowcontrol.ledger.link_ledger import LinkLedgerView
        from flowcontrol.ledger.storage import Storage
        from flowcontrol.link.members import senders_of

        link = self.base / "link"
        if not (link / "exchange" / "_delta_log").exists():
            return {"sent": 0, "trimmed": 0, "checkpoint": None}
        adds = DeltaTable(str(link / "exchange")).get_add_actions(flatten=True)
        kept = sum(adds["num_records"].to_pylist())
        view = LinkLedgerView(Storage(link / "ledger"))
        view.refresh()
        sent = sum(sum(sender.records) for sender in senders_of(view))
        newest = link / "ledger" / "_delta_log" / "_last_checkpoint"
        version = json.loads(newest.read_text())["version"] if newest.exists() else None
        return {"sent": sent, "trimmed": max(0, sent - kept), "checkpoint": version}
