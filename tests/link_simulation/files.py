"""Files in memory, on a disk or in a store, and the faults that befall a call.

A call may fail without having done anything, or after it did; it may be torn, if it is not atomic;
in a store it may take effect later, or twice. The process that makes it may die before or after it,
be frozen, or find its clocks changed. A listing on a disk is not of one moment: what is made or
deleted meanwhile is in it or not.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from .scheduler import Crash, Scheduler

DISK, STORE, UNLINKED = "disk", "store", "disk without hard links"

HOUR_S = 3600.0

AT_A_READ = 0.3
"""How likely a fault comes at a call that changes nothing, of which there are most."""


class File:
    """A file."""

    __slots__ = ("content", "written")

    def __init__(self, content: bytes, written: float) -> None:
        self.content, self.written = content, written


class Likely(NamedTuple):
    """How likely each fault is, relative to others; 0 for one that does not come in a history."""

    kill: float = 1.0
    failure: float = 1.0  # Lost, or its answer is
    torn: float = 1.0
    late: float = 1.0  # Delayed, reordered, duplicated
    freeze: float = 1.0
    clock: float = 1.0
    stop: float = 0.3


class Files:
    """All files of a history.

    - ``every``: calls between two faults, on average; 0: none.
    - ``met``: how often each fault came.
    """

    def __init__(self, scheduler: Scheduler, kind: str, likely: Likely, every: float) -> None:
        self.scheduler, self.kind, self.likely = scheduler, kind, likely
        self.folders: dict[str, dict[str, File]] = {}
        self._all: dict[str, File] = {}
        self._newest: dict[str, str] = {}
        self.met: Counter[str] = Counter()
        self.trace: list[str] | None = None
        self.on_freeze: Callable[[Any], None] = lambda process: None
        self.commits: list[tuple[str, bytes]] = []  # Path and content of each, for ever
        self.archive: dict[str, bytes] = {}  # Files of the ledger, for ever
        self._every, self._left = every, 0
        self._wait()

    def _wait(self) -> None:
        more = self.scheduler.rng.expovariate(1 / self._every) if self._every else 1e12
        self._left = 1 + int(more)

    def be_calm(self) -> None:
        """Let no more faults come."""
        self._every = 0.0
        self._wait()

    # ------------------------------------------------------------------ calls

    def call(
        self,
        what: str,
        path: str,
        act: Callable[[], Any],
        tear: Callable[[], Any] | None = None,
        *,
        is_write: bool = False,
    ) -> Any:
        """Make a call.

        - ``act``: what it does.
        - ``tear``: what half of it does, if it is not atomic.
        """
        self.scheduler.pause()
        self._left -= 1
        if self._left <= 0 and (is_write or self.scheduler.rng.random() < AT_A_READ):
            return self._fault(what, path, act, tear, is_write=is_write)
        if self.trace is not None:
            self.note(f"{what} {path}")
        return act()

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        if self.trace is not None:
            scheduler = self.scheduler
            now = scheduler.now - 1_700_000_000.0
            self.trace.append(f"{now:10.4f} {scheduler.process.name:<14} {text}")

    def _fault(
        self,
        what: str,
        path: str,
        act: Callable[[], Any],
        tear: Callable[[], Any] | None,
        *,
        is_write: bool,
    ) -> Any:
        self._wait()
        likely, chance = self.likely, self.scheduler.rng
        kinds: dict[str, float] = {
            "killed before": likely.kill,
            "lost": likely.failure,
            "frozen": likely.freeze,
            "clock": likely.clock,
            "stopped": likely.stop,
        }
        if is_write:
            kinds["killed after"] = likely.kill
            kinds["unanswered"] = likely.failure
            if tear is not None:
                kinds["torn"] = likely.torn
            if self.kind == STORE:
                kinds["late"] = likely.late
                kinds["twice"] = likely.late
        [kind] = chance.choices(list(kinds), list(kinds.values()))
        self.met[kind] += 1
        if self.trace is not None:
            self.note(f"{what} {path}: {kind.upper()}")
        found: Any = getattr(self, f"_{kind.replace(' ', '_')}")(what, path, act, tear)
        return found

    def _error(self, what: str, path: str) -> OSError:
        self.scheduler.process.is_hurt = True
        number = errno.EIO if self.kind == STORE else errno.ENOSPC
        return OSError(number, "the simulated storage failed", f"{what} {path}")

    def _die(self) -> None:
        self.scheduler.kill(self.scheduler.process)
        raise Crash

    def _killed_before(self, *_: Any) -> None:
        self._die()

    def _killed_after(self, what: str, path: str, act: Any, tear: Any) -> None:
        act()
        self._die()

    def _lost(self, what: str, path: str, act: Any, tear: Any) -> None:
        raise self._error(what, path)

    def _unanswered(self, what: str, path: str, act: Any, tear: Any) -> None:
        act()
        raise self._error(what, path)

    def _torn(self, what: str, path: str, act: Any, tear: Any) -> None:
        tear()
        if self.scheduler.rng.random() < 0.5:
            self._die()
        raise self._error(what, path)

    def _later(self, path: str, act: Callable[[], Any]) -> None:
        chance = self.scheduler.rng

        def land() -> None:
            if self.trace is not None:
                now = self.scheduler.now - 1_700_000_000.0
                self.trace.append(f"{now:10.4f} {'the network':<14} brings what was late: {path}")
            with suppress(OSError):  # nobody hears the answer
                act()

        delay = chance.choice((0.002, 0.02, 0.2, 2.0, 30.0)) * chance.random()
        self.scheduler.at(self.scheduler.now + delay, land)

    def _late(self, what: str, path: str, act: Any, tear: Any) -> None:
        self._later(path, act)
        raise self._error(what, path)

    def _twice(self, what: str, path: str, act: Any, tear: Any) -> Any:
        found = act()
        if self.scheduler.rng.random() < 0.5:  # the client repeats it, and has the second answer
            return act()
        self._later(path, act)
        return found

    def _frozen(self, what: str, path: str, act: Any, tear: Any) -> Any:
        chance, process = self.scheduler.rng, self.scheduler.process
        longest = 15.0 if self.kind == UNLINKED else chance.choice((0.05, 1.0, 20.0))
        process.frozen_until = self.scheduler.now + longest * chance.random()
        self.on_freeze(process)
        self.scheduler.pause()
        return act()

    def _clock(self, what: str, path: str, act: Any, tear: Any) -> Any:
        chance, process = self.scheduler.rng, self.scheduler.process
        process.wall_s = chance.choice((-90.0, -2.0, 2.0, 90.0, 0.5 * HOUR_S)) * chance.random()
        if self.kind != UNLINKED and chance.random() < 0.3:
            process.monotonic_s += 100.0 * chance.random()
        return act()

    def _stopped(self, what: str, path: str, act: Any, tear: Any) -> Any:
        self.scheduler.process.is_stopping = True
        return act()

    # ------------------------------------------------------------------ what is there

    def find(self, path: str) -> File | None:
        return self._all.get(path)

    def put(self, path: str, content: bytes) -> None:
        """Write a file whole, in place of one that may be there."""
        folder, _, name = path.rpartition("/")
        file = self._all[path] = File(content, self.scheduler.now)
        self.folders.setdefault(folder, {})[name] = file
        if folder.endswith("/ledger") and path not in self.archive:
            self.archive[path] = content

    def put_new(self, path: str, content: bytes) -> bool:
        """Write a file whole unless it is there; False if it was."""
        if path in self._all:
            return False
        self.put(path, content)
        if path.endswith(".json") and "/_delta_log/" in path:
            folder = path.rpartition("/")[0]
            if path > self._newest.get(folder, ""):
                self._newest[folder] = path
                self.commits.append((path, content))
            else:  # its name was free again: whoever knows of a checkpoint never reads it
                self.met["a commit fell behind a checkpoint"] += 1
        return True

    def drop(self, path: str) -> None:
        """Delete a file. Raises FileNotFoundError."""
        if self._all.pop(path, None) is None:
            raise FileNotFoundError(path)
        folder, _, name = path.rpartition("/")
        del self.folders[folder][name]

    # ------------------------------------------------------------------ calls by name

    def read(self, path: str) -> bytes:
        """Raises FileNotFoundError."""
        found: bytes = self.call("read", path, lambda: self._content(path))
        return found

    def _content(self, path: str) -> bytes:
        file = self.find(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return file.content

    def exists(self, path: str) -> bool:
        found: bool = self.call(
            "look for", path, lambda: self.find(path) is not None or self.is_folder(path)
        )
        return found

    def is_folder(self, path: str) -> bool:
        if path in self.folders:
            return True
        below = f"{path}/"
        return any(folder.startswith(below) for folder in self.folders)

    def write(self, path: str, content: bytes) -> None:
        """Write a file, in a store whole, on a disk perhaps a part of it."""
        half = content[: len(content) // 2]
        is_whole = self.kind == STORE
        tear = None if is_whole else lambda: self.put(path, half)
        self.call("write", path, lambda: self.put(path, content), tear, is_write=True)

    def put_whole(self, path: str, content: bytes) -> None:
        """Write a file whole, as delta-rs does everywhere: a reader never finds a part of it."""
        self.call("put", path, lambda: self.put(path, content), is_write=True)

    def create(self, path: str, content: bytes) -> bool:
        """Give a file that is whole its name unless another has it, as a store or a link does."""
        found: bool = self.call("create", path, lambda: self.put_new(path, content), is_write=True)
        return found

    def delete(self, path: str) -> None:
        """Raises FileNotFoundError."""
        self.call("delete", path, lambda: self.drop(path), is_write=True)

    def listing(self, folder: str) -> dict[str, File]:
        """Return the files of a folder, as they were in the time that this took."""
        if self.kind == STORE:
            return self.call("list", folder, lambda: dict(self.folders.get(folder, {})))
        first = self.call("list", folder, lambda: dict(self.folders.get(folder, {})))
        switches = self.scheduler.switches
        self.scheduler.pause()
        if switches == self.scheduler.switches:
            return first
        now, chance = self.folders.get(folder, {}), self.scheduler.rng
        found = {}
        for name in sorted({*first, *now}):
            if (name in first and name in now) or chance.random() < 0.5:
                found[name] = now.get(name) or first[name]
        if found.keys() != now.keys():
            self.met["listing with a hole"] += 1
        return found

    def below(self, folder: str) -> list[str]:
        """Return the folders below one, and itself."""
        inner = f"{folder}/"
        return [one for one in self.folders if one == folder or one.startswith(inner)]
