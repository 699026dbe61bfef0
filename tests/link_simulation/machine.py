"""What a process asks of its machine, simulated: files, stores, clocks, threads."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from pyarrow import fs

from .files import UNLINKED, Files
from .scheduler import Process, Scheduler

ROOT, BUCKET = "/simulated/link", "s3://simulated/link"
"""The folder of the link on a disk, and in a store."""


class World:
    """The history that runs now."""

    files: Files
    scheduler: Scheduler
    processes: dict[int, Process]
    count: int
    """Of names made so far."""


def failing(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


class Path:
    """``pathlib.Path``, as far as the product uses it."""

    __slots__ = ("text",)

    def __init__(self, *parts: Any) -> None:
        self.text = str(parts[0]) if len(parts) == 1 else "/".join(map(str, parts))

    def __str__(self) -> str:
        return self.text

    __fspath__ = __str__

    def __truediv__(self, name: str) -> Path:
        return Path(self.text, name)

    @property
    def name(self) -> str:
        return self.text.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def parent(self) -> Path:
        return Path(self.text.rpartition("/")[0])

    def with_name(self, name: str) -> Path:
        return self.parent / name

    def relative_to(self, root: str) -> str:
        return self.text[len(str(root)) + 1 :]

    def exists(self) -> bool:
        return World.files.exists(self.text)

    def is_file(self) -> bool:
        return World.files.find(self.text) is not None

    def iterdir(self) -> Iterator[Path]:
        if not World.files.is_folder(self.text):
            raise failing(errno.ENOENT, self.text)
        folders = World.files.below(self.text)
        inner = {one[len(self.text) + 1 :].partition("/")[0] for one in folders} - {""}
        names = {*World.files.listing(self.text), *inner}
        return iter([self / name for name in sorted(names)])

    def rglob(self, _: str) -> Iterator[Path]:
        for folder in World.files.below(self.text):
            for name in World.files.listing(folder):
                yield Path(folder, name)

    def glob(self, pattern: str) -> Iterator[Path]:
        begin = pattern.rstrip("*")
        for name in World.files.listing(self.text):
            if name.startswith(begin):
                yield self / name

    def stat(self) -> Any:
        def look() -> Any:
            file = World.files.find(self.text)
            if file is None:
                raise failing(errno.ENOENT, self.text)
            return SimpleNamespace(st_size=len(file.content), st_mtime=file.written)

        return World.files.call("stat", self.text, look)

    def mkdir(self, **_: Any) -> None:
        World.files.folders.setdefault(self.text, {})

    def touch(self) -> None:
        World.files.write(self.text, b"")

    def unlink(self, *, missing_ok: bool = False) -> None:
        try:
            World.files.delete(self.text)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def read_text(self) -> str:
        return World.files.read(self.text).decode()

    def write_text(self, text: str) -> None:
        World.files.write(self.text, text.encode())

    def open(self, _: str) -> Output:
        return Output(self.text)

    def replace(self, target: Path) -> None:
        """Give the file another's name."""
        files = World.files

        def act() -> None:
            file = files.find(self.text)
            if file is None:
                raise failing(errno.ENOENT, self.text)
            files.drop(self.text)
            files.put(target.text, file.content)

        files.call("rename to", target.text, act, is_write=True)

    rename = replace


class Output:
    """A file that is being written: it is there when it is closed, or a part of it."""

    def __init__(self, path: str) -> None:
        self._path, self._parts = path, list[bytes]()

    def write(self, content: Any) -> int:
        self._parts.append(bytes(content) if not isinstance(content, bytes) else content)
        return len(content)

    def flush(self) -> None:
        """Nothing is held back."""

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        World.files.write(self._path, b"".join(self._parts))

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Input:
    """A file that is read."""

    def __init__(self, path: str) -> None:
        self.content = World.files.read(path)

    def read(self, *_: Any) -> bytes:
        return self.content

    def close(self) -> None:
        """Nothing is held open."""

    def __enter__(self) -> Input:
        return self

    def __exit__(self, *_: Any) -> None:
        """Nothing is held open."""


def open_file(path: str, mode: str = "rb") -> Input | Output:
    """``open``, and ``pyarrow.OSFile``."""
    return Output(path) if "w" in mode else Input(path)


class System:
    """``os``, as far as the product uses it."""

    O_CREAT, O_EXCL, O_WRONLY = os.O_CREAT, os.O_EXCL, os.O_WRONLY

    @staticmethod
    def link(source: Path, target: Any) -> None:
        if World.files.kind == UNLINKED:
            raise failing(errno.EPERM, str(target))
        file = World.files.find(source.text)
        if file is None:
            raise failing(errno.ENOENT, source.text)
        if not World.files.create(str(target), file.content):
            raise failing(errno.EEXIST, str(target))

    @staticmethod
    def open(path: Path, _: int) -> str:
        if not World.files.create(path.text, b""):
            raise failing(errno.EEXIST, path.text)
        return path.text

    @staticmethod
    def fdopen(handle: str, _: str) -> Any:
        return _Text(handle)

    @staticmethod
    def close(_: str) -> None:
        """Nothing is held open."""

    @staticmethod
    def fsync(_: int) -> None:
        """Power does not fail here."""

    @staticmethod
    def getpid() -> int:
        return World.scheduler.process.pid

    @staticmethod
    def getppid() -> int:
        return 1

    @staticmethod
    def kill(pid: int, _: int) -> None:
        if World.processes[pid].is_dead:
            raise ProcessLookupError(pid)


class _Text(Output):
    def write(self, content: Any) -> int:
        return super().write(content.encode())


def machine() -> str:
    return World.scheduler.process.host


# --- Stores: ``pyarrow.fs``.


class Store:
    """A file system of pyarrow's."""

    def get_file_info(self, asked: Any) -> Any:
        files = World.files
        if isinstance(asked, str):
            return files.call("look for", asked, lambda: self._info(asked))
        if not asked.recursive:
            folder = asked.base_dir
            inner = {one[len(folder) + 1 :].partition("/")[0] for one in files.below(folder)} - {""}
            names = {*files.listing(folder), *inner}
            return [self._info(f"{folder}/{name}") for name in names]
        return [
            self._info(f"{folder}/{name}")
            for folder in files.below(asked.base_dir)
            for name in files.listing(folder)
        ]

    @staticmethod
    def _info(path: str) -> Any:
        file, size, written = World.files.find(path), None, None
        kind = fs.FileType.NotFound
        if file is not None:
            kind, size, written = fs.FileType.File, len(file.content), int(file.written * 1e9)
        elif World.files.is_folder(path):
            kind = fs.FileType.Directory
        return SimpleNamespace(
            type=kind, path=path, base_name=path.rpartition("/")[2], size=size, mtime_ns=written
        )

    def open_input_stream(self, path: str) -> Input:
        return Input(path)

    open_input_file = open_input_stream

    def open_output_stream(self, path: str) -> Output:
        return Output(path)

    def delete_file(self, path: str) -> None:
        World.files.delete(path)


def open_store(uri: str, *, is_checked: bool = False) -> tuple[Store, str]:
    return Store(), uri.removeprefix("s3://")


def folder_of(place: Any) -> str:
    """Return the folder that a path, or a URI, means."""
    return str(place).removeprefix("s3://")


# --- Clocks and names.


class Clock:
    """``time``."""

    @staticmethod
    def monotonic() -> float:
        scheduler = World.scheduler
        return scheduler.now + scheduler.process.monotonic_s

    @staticmethod
    def time() -> float:
        scheduler = World.scheduler
        return scheduler.now + scheduler.process.wall_s

    @staticmethod
    def sleep(seconds: float) -> None:
        World.scheduler.sleep(seconds)


class Moment(float):
    """A ``datetime``."""

    @classmethod
    def now(cls, _: Any) -> Moment:
        return cls(Clock.time())

    def timestamp(self) -> float:
        return self


class Name:
    """``uuid``: names that nobody else has."""

    @staticmethod
    def uuid4() -> Name:
        return Name()

    def __init__(self) -> None:
        World.count += 1
        self.hex = f"{World.count:06x}{'0' * 26}"
        self.hex = f"{World.count:08x}{World.count:04x}"

    def __str__(self) -> str:
        return self.hex


# --- Threads of a process: tasks, of which one runs at a time.


class RLock:
    """``threading.RLock``."""

    def __init__(self) -> None:
        self._owner: Any = None
        self._count = 0

    def __enter__(self) -> None:
        scheduler = World.scheduler
        while self._owner not in (None, scheduler.current):
            scheduler.sleep(0.005)
        self._owner = scheduler.current
        self._count += 1

    def __exit__(self, *_: Any) -> None:
        self._count -= 1
        if not self._count:
            self._owner = None


class Thread:
    """``threading.Thread``."""

    def __init__(self, target: Callable[[], None], **_: Any) -> None:
        self._target = target

    def start(self) -> None:
        World.scheduler.spawn(World.scheduler.process, self._target)


THREADING = SimpleNamespace(RLock=RLock, Thread=Thread, current_thread=threading.current_thread)


class Executor:
    """``ThreadPoolExecutor`` with one thread."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._jobs: list[Future] = []

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future:
        self._jobs.append(Future(lambda: work(*arguments)))
        return self._jobs[-1]

    def shutdown(self, *, wait: bool = True) -> None:
        while not all(job.done() for job in self._jobs):
            World.scheduler.sleep(0.01)


class Future:
    """What a thread will have done."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work, self._is_done = work, False
        self._found: Any = None
        self._error: Exception | None = None
        World.scheduler.spawn(World.scheduler.process, self._run)

    def _run(self) -> None:
        try:
            self._found = self._work()
        except Exception as error:
            self._error = error
        self._is_done = True

    def done(self) -> bool:
        return self._is_done

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._found
