"""The kinds of faults: what each does to a pipeline, and the remedy that is documented for it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import faulty_rows as rows
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from faulty_disk import FULL, READ_ONLY
from faulty_pipeline import Pipeline, copy_of

from flowcontrol.spark.crash_points import CrashPoint

POINTS = {
    "sender": [
        *(
            CrashPoint.AFTER_CLAIM,
            CrashPoint.BEFORE_EXCHANGE,
            CrashPoint.BEFORE_LEDGER,
            CrashPoint.AFTER_LEDGER,
        ),
        *(CrashPoint.BEFORE_RELEASE, CrashPoint.AFTER_RELEASE),
    ],
    "receiver": [
        CrashPoint.AFTER_CLAIM,
        CrashPoint.BEFORE_LEDGER,
        CrashPoint.AFTER_LEDGER,
        CrashPoint.PLANNED,
    ],
}

OLD_S = 1.5
"""Age from which the commits before a checkpoint are deleted: a minute, in the link itself."""

MOST_LATE = 2
"""Late receivers at a time."""

MOST_COLUMNS = 60


# ------------------------------------------------------------------ processes


def kill(pipeline: Pipeline) -> bool:
    """Kill a member, now or at a named point of its next start."""
    member = pipeline.chance.choice(pipeline.members)
    if pipeline.chance.random() < 0.5:
        return member.send(signal.SIGKILL)
    member.kill()
    pipeline.tend_one(member)
    member.kill()
    point = pipeline.chance.choice(POINTS[member.kind])
    member.start(f"{member.name}:0+:{point}")
    return True


def restart(pipeline: Pipeline) -> bool:
    """End a member in an orderly way; it starts again."""
    return pipeline.chance.choice(pipeline.members).send(signal.SIGTERM)


def stop(pipeline: Pipeline) -> bool:
    """Stop a member for a while; it lags."""
    member = pipeline.chance.choice(pipeline.members)
    member.is_stopped = member.send(signal.SIGSTOP)
    return member.is_stopped


def zombie(pipeline: Pipeline) -> bool:
    """Stop a member, start another in its place, and let the first go on later."""
    member = pipeline.chance.choice(pipeline.members)
    if member.zombies or not member.send(signal.SIGSTOP):
        return False
    pipeline.causes.add("zombie")
    member.zombies.append(member.process)
    member.start()
    return True


# ------------------------------------------------------------------ disks and files


class Broken:
    """A disk that is full or read-only."""

    def __init__(self, pipeline: Pipeline, kind: str) -> None:
        self.pipeline, self.kind = pipeline, kind

    def mend(self) -> None:
        """Make room, or writable again."""
        self.pipeline.disk.mend()


def disk_is(what: str) -> Callable[[Pipeline], bool]:
    """Return a fault that makes the disk full or read-only."""

    def strike(pipeline: Pipeline) -> bool:
        if any(isinstance(condition, Broken) for condition in pipeline.conditions):
            return False
        pipeline.causes.add(what)
        pipeline.conditions.append(Broken(pipeline, what))
        return pipeline.disk.become(what)

    return strike


class Lost:
    """A file that was damaged or deleted, and a copy of it to restore."""

    def __init__(
        self, pipeline: Pipeline, kind: str, path: Path, content: bytes, left: bytes | None
    ) -> None:
        self.pipeline, self.kind, self.path = pipeline, kind, path
        self.content, self.left = content, left

    def mend(self) -> None:
        """Restore it, unless the link has trimmed it meanwhile."""
        there = self.path.read_bytes() if self.path.exists() else None
        if there is None and self.left is not None:
            return
        assert there == self.left, f"{self.path}: written anew in place of the one that was lost"
        self.pipeline.disk.mend()
        hidden = self.path.with_name(f".{self.path.name}.restored")
        hidden.write_bytes(self.content)
        hidden.replace(self.path)


def data_files(pipeline: Pipeline) -> list[Path]:
    """Return the newest files with the rows of link and ledger: those that are still read."""
    found = [path for path in pipeline.link.rglob("*.parquet") if "_delta_log" not in path.parts]
    return sorted(found, key=_written)[-12:]


def _written(path: Path) -> float:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0


def log_files(pipeline: Pipeline) -> list[Path]:
    """Return commits and checkpoints of both logs, but for the last commit of each."""
    found = []
    for table in ("exchange", "ledger"):
        log = pipeline.link / table / "_delta_log"
        found += sorted(log.glob("*.json"))[:-1]
        found += [*log.glob("*.checkpoint.parquet"), *log.glob("_last_checkpoint")]
    return found


def damage(kind: str, files: Callable[[Pipeline], list[Path]]) -> Callable[[Pipeline], bool]:
    """Return a fault that flips a bit of a file, or cuts it off."""

    def strike(pipeline: Pipeline) -> bool:
        chance, found = pipeline.chance, files(pipeline)
        if not found:
            return False
        path = chance.choice(found)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return False
        if not content:
            return False
        left = bytearray(content)
        if chance.random() < 0.8:
            left[chance.randrange(len(left))] ^= 1 << chance.randrange(8)
        else:
            left = left[: chance.randrange(len(left))]
        return _lose(pipeline, kind, path, content, bytes(left))

    return strike


def missing(pipeline: Pipeline) -> bool:
    """Delete a file of data or of a log."""
    files = pipeline.chance.choice([data_files, log_files])(pipeline)
    if not files:
        return False
    path = pipeline.chance.choice(files)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    return _lose(pipeline, "missing", path, content, None)


def _lose(pipeline: Pipeline, kind: str, path: Path, content: bytes, left: bytes | None) -> bool:
    """Damage or delete a file, and have somebody read it."""
    if any(isinstance(c, Lost) and c.path == path for c in pipeline.conditions):
        return False
    try:
        if left is None:
            path.unlink()
        else:
            with path.open("r+b") as file:  # in place: who has it open sees it
                file.truncate(len(left))
                file.write(left)
    except OSError:  # trimmed meanwhile, or nothing can be written
        return False
    pipeline.causes.add(kind)
    pipeline.note(f"{kind}: {path.relative_to(pipeline.link)}")
    pipeline.conditions.append(Lost(pipeline, kind, path, content, left))
    for member in pipeline.members:  # who has read it already must read it again
        if pipeline.chance.random() < 0.4:
            member.send(signal.SIGKILL)
    return True


def delta_checkpoint(pipeline: Pipeline) -> bool:
    """Write a checkpoint of a log, delete the commits before it, and have somebody read it."""
    table = pipeline.link / pipeline.chance.choice(["exchange", "exchange", "ledger"])
    try:
        handle = DeltaTable(str(table))
        handle.create_checkpoint()
    except (DeltaError, OSError):
        return False  # a log that is damaged, or a disk that is full
    version = int(handle.version())
    for path in (table / "_delta_log").glob("*.json"):
        is_old = time.time() - path.stat().st_mtime > OLD_S
        if path.stem.isdigit() and int(path.stem) < version and is_old:
            path.unlink(missing_ok=True)
    for member in pipeline.members:
        if pipeline.chance.random() < 0.5:
            member.send(signal.SIGKILL)
    return True


# ------------------------------------------------------------------ checkpoints of Spark


def put_back(side: str) -> Callable[[Pipeline], bool]:
    """Return a fault that puts a checkpoint of one side back by some batches."""

    def strike(pipeline: Pipeline) -> bool:
        member = pipeline.chance.choice([m for m in pipeline.members if m.kind == side])
        if member.zombies or member.newest is not None or member.done < 6:
            return False
        member.kill()
        pipeline.tend_one(member, start=False)
        member.newest = copy_of(member.checkpoint, member.own / "newest")
        back = pipeline.chance.choice([1, 1, 1, 2, 5])
        first = {"commits": member.done - back}
        first["offsets"] = first["commits"] + (pipeline.chance.random() < 0.3)
        for log, last in first.items():
            for path in (member.checkpoint / log).glob("[0-9]*"):
                if int(path.name) > last:
                    path.unlink()
        pipeline.causes.add(f"{side} put back")
        pipeline.note(f"{member.place} put back by {back}")
        pipeline.more_rows(member)
        member.start()
        return True

    return strike


# ------------------------------------------------------------------ members and columns


def late(pipeline: Pipeline) -> bool:
    """Start a receiver when rows have gone by; some insist on all rows, and may be refused."""
    if len(pipeline.late) >= MOST_LATE:
        return False
    name = f"late-{pipeline.numbered()}"
    options = {}
    if pipeline.chance.random() < 0.3:
        options["from_start"] = "true"
        pipeline.causes.add("from start")
    channels = list(range(rows.CHANNELS))
    pipeline.late.append(pipeline.add_receiver(name, name, channels, is_late=True, **options))
    return True


def retire(pipeline: Pipeline) -> bool:
    """Have a receiver never come back, and remove it some time after; or remove it as it runs."""
    known = [member for member in pipeline.late if (member.own / "began.json").exists()]
    if not known:
        return False
    member = pipeline.chance.choice(known)
    pipeline.late.remove(member)
    if pipeline.chance.random() < 0.7:
        member.kill()
    pipeline.causes.add("removed")
    pipeline.members.remove(member)
    pipeline.retired.append(member)
    return True


def columns(senders: int) -> Callable[[Pipeline], bool]:
    """Return a fault that gives some senders a column more each, at once."""

    def strike(pipeline: Pipeline) -> bool:
        if pipeline.columns + senders > MOST_COLUMNS:
            return False
        pipeline.causes.add("columns")
        for member in pipeline.chance.sample(pipeline.senders, senders):
            pipeline.columns += 1
            source = pipeline.sources[member.name]
            source["columns"] = [*source["columns"], f"more_{pipeline.columns}"]
        for member in pipeline.senders:
            pipeline.write_source(member.name)
        return True

    return strike


KINDS: dict[str, Callable[[Pipeline], bool]] = {
    "kill": kill,
    "restart": restart,
    "stop": stop,
    "zombie": zombie,
    "full disk": disk_is(FULL),
    "read-only": disk_is(READ_ONLY),
    "damaged data": damage("damaged data", data_files),
    "damaged log": damage("damaged log", log_files),
    "missing file": missing,
    "delta checkpoint": delta_checkpoint,
    "sender put back": put_back("sender"),
    "receiver put back": put_back("receiver"),
    "late receiver": late,
    "retired receiver": retire,
    "a column": columns(1),
    "two columns at once": columns(2),
}
"""Every kind of fault; each returns whether it could be done just now."""
