"""``flowcontrol new``: a first scenario, from six questions or from flags."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import yaml
from pydantic_core import PydanticCustomError

from flowcontrol.cli.command import refuse, say
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.layout.sketch import SOURCE, Number, Sketch
from flowcontrol.scenario import fields as f
from flowcontrol.scenario.connectors import CONNECTORS
from flowcontrol.scenario.problems import known, show
from flowcontrol.scenario.request_parts import MOST_LATENCY_MS
from flowcontrol.scenario.syntax import read_yaml_value
from flowcontrol.scenario.system import SYSTEMS

SINKS: Final = tuple(
    name for name, own in CONNECTORS.items() if own.style in {"async", "blocking", "producer"}
)
"""Connectors of sinks."""

NO_SINK: Final = "none"
"""Answer for a sink that waits for nobody."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.description = (
        "Write a commented scenario that runs on the virtual clock. Without flags, in a terminal, "
        "it asks six questions. A file that exists is not overwritten."
    )
    parser.add_argument("--name", help="name of the job: letters, digits, '_', '-' and '.'")
    parser.add_argument(
        "--source-rate", metavar="RATE", help="records/s of all subtasks of the source together"
    )
    parser.add_argument(
        "--log",
        action="store_true",
        help="the source reads a log that grows by RATE, as with Kafka: unread records wait "
        "there; default: a generator, which loses what it cannot emit",
    )
    parser.add_argument(
        "--stages",
        metavar="NAME:RATE,...",
        help="stages behind the source in order, with the records/s that all subtasks of each can "
        "process; a name alone is never the bottleneck",
    )
    parser.add_argument(
        "--parallelism",
        metavar="N[,N...]",
        help="parallelism: one number for all stages, or one for each, the source first; default 1",
    )
    parser.add_argument("--system", help="system whose flow control applies; default flink")
    parser.add_argument(
        "--slow",
        metavar="NAME:RATE",
        help="stage that slows down to RATE records/s between 20 and 40 s; default: none",
    )
    parser.add_argument(
        "--sink",
        metavar="KIND:MS",
        help="what the last stage writes to, and the ms that an answer takes, as dynamodb:20: the "
        f"connector's defaults hold ({', '.join(SINKS)}); default: none, it waits for no answer",
    )
    parser.add_argument("--out", metavar="FILE", help="file to write; default NAME.yaml")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask or read the flags, write the file; return 0, or 2 with nothing written."""
    from flowcontrol.layout.sketch import scenario_text

    given = {key: value for key, value in vars(options).items() if key != "run" and value}
    try:
        if set(given) <= {"out"} and sys.stdin.isatty():
            sketch = ask(options.out)
        else:
            sketch = from_flags(options)
        path = Path(options.out or f"{sketch.name}.yaml")
        check_new(path)
    except EOFError:
        return refuse("the answers ended; nothing is written")
    except ValueError as error:
        return refuse(str(error))
    _write(path, scenario_text(sketch))
    _say_what_next(path, sketch)
    return 0


def _write(path: Path, text: str) -> None:
    """Write a file that does not exist yet, whole or not at all."""
    try:
        file = path.open("x", encoding="utf-8")
        try:
            with file:
                file.write(text)
        except BaseException:
            path.unlink()
            raise
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror or error}"
        raise ScenarioError([Problem("--out", why)], "command") from error


def _say_what_next(path: Path, sketch: Sketch) -> None:
    from flowcontrol.layout.sketch import SOURCE, has_buffers

    lines = [f"wrote {path}: {' -> '.join([SOURCE, *sketch.stages])}", "next:"]
    if has_buffers(sketch):
        lines.append(f"  flowcontrol plan {path}")
    lines.append(f"  flowcontrol emulate {path} --clock virtual")
    sys.stdout.write("\n".join(lines) + "\n")


T = TypeVar("T")
V = TypeVar("V")

_RATE: Final = f.Number("records/s", 0, f.MAX_RATE)
_LATENCY: Final = f.Number("a time in ms", 0, MOST_LATENCY_MS)
_WIDTH: Final = f.Number("a whole number of subtasks", 1, f.MAX_PARALLELISM, step=f.ONE)

_FLAGS: Final = "--name NAME --source-rate RATE --stages NAME:RATE,NAME:RATE"
"""What is needed where nobody can be asked."""

_DEFAULT_STAGES: Final = "map:20000, sink:12000"


def from_flags(options: argparse.Namespace) -> Sketch:
    """Return what the flags say; ValueError names what is missing."""
    needed = {"--name": options.name, "--source-rate": options.source_rate}
    missing = [flag for flag, value in {**needed, "--stages": options.stages}.items() if not value]
    if missing:
        where = "" if sys.stdin.isatty() else ", and there is no terminal to ask in"
        is_are = "are" if len(missing) > 1 else "is"
        text = f"{', '.join(missing)} {is_are} missing{where}; write"
        raise ValueError(f"{text}\n  flowcontrol new {_FLAGS}")
    stages = _read("--stages", read_stages, options.stages)
    names = [SOURCE, *stages]
    return Sketch(
        name=_read("--name", read_name, options.name),
        source_rate=_read("--source-rate", read_rate, options.source_rate),
        stages=stages,
        parallelism=_read("--parallelism", lambda t: read_widths(t, names), options.parallelism),
        system=_read("--system", read_system, options.system or SYSTEMS[0]),
        slow=_read("--slow", lambda t: read_slow(t, names), options.slow),
        reads_log=options.log,
        connector=_read("--sink", read_sink, options.sink),
    )


def _read(flag: str, read: Callable[[str], T], text: str | None) -> T:
    try:
        return read(text or "")
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from error


def ask(out: str | None) -> Sketch:
    """Ask the six questions."""
    say("Six questions; Enter takes what is in brackets, Ctrl-C leaves.")
    if out is not None:
        check_new(Path(out))
    name = _answer("1. What is the job called?", "my-job", lambda t: _new_name(t, out))
    rate, reads_log = _answer(
        "2. How many records/s does the source emit in all; `10000 log` if it reads a log (Kafka)?",
        "10000",
        read_source,
    )
    stages = _answer(
        "3. Which stages follow, and how many records/s can each process in all?",
        _DEFAULT_STAGES,
        read_stages,
    )
    names = [SOURCE, *stages]
    widths = _answer(
        f"4. How many subtasks, for all or for each of {', '.join(names)}?",
        "2",
        lambda t: read_widths(t, names),
    )
    system, slow = _answer(
        "5. Whose flow control, and what slows down to how many records/s?",
        f"{SYSTEMS[0]}, {names[-1]}:{f.write_number(_RATE.read(rate) / 2)}",
        lambda t: read_system_and_slow(t, names),
    )
    sink = _answer(
        f"6. What does {names[-1]} write to, and how many ms does an answer take, as dynamodb:20;"
        " none if it waits for no answer?",
        NO_SINK,
        read_sink,
    )
    return Sketch(name, rate, stages, widths, system, slow, reads_log, sink)


def _answer(question: str, default: str, read: Callable[[str], T]) -> T:
    """Ask until an answer can be read."""
    while True:
        sys.stderr.write(f"{question}\n   [{default}] ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        try:
            return read(line.strip() or default)
        except ValueError as error:
            say(f"   {error}")


def _new_name(text: str, out: str | None) -> str:
    name = read_name(text)
    if out is None:
        check_new(Path(f"{name}.yaml"))
    return name


def check_new(path: Path) -> None:
    """Raise ValueError for a file that exists."""
    if path.exists() or path.is_symlink():
        raise ValueError(f"{path} exists and is not overwritten: name another file with --out")


def read_name(text: str) -> str:
    """Return the name of a job; ValueError with what it may be."""
    return _checked(f.read_name, text)


def read_rate(text: str) -> Number:
    """Return a rate, records/s; ValueError with its range."""
    return f.write_number(_checked(_RATE.read, _value(text)))


def read_source(text: str) -> tuple[Number, bool]:
    """Return the rate of a source and whether it reads a log: ``10000`` or ``10000 log``."""
    rate, _, kind = text.partition(" ")
    if kind.strip() not in {"", "log"}:
        raise ValueError(f"{show(kind.strip())}: write a rate, or a rate and the word log")
    return read_rate(rate), bool(kind.strip())


def read_stages(text: str) -> dict[str, Number | None]:
    """Return stages with their rates: ``map:20000, sink``; ValueError with what is wrong."""
    stages: dict[str, Number | None] = {}
    for part in _parts(text):
        name, colon, rate = part.partition(":")
        _checked(f.read_stage_name, name)
        if name.lower() in {SOURCE, *map(str.lower, stages)}:
            raise ValueError(f"{show(name)} is the name of a stage before it: give it its own")
        stages[name] = read_rate(rate) if colon else None
    if not stages:
        raise ValueError(f"a job has at least one stage behind its source: {_DEFAULT_STAGES}")
    return stages


def read_widths(text: str, names: list[str]) -> tuple[int, ...]:
    """Return the parallelism of each stage: ``4`` for all, or ``4, 4, 2``."""
    widths = [int(_checked(_WIDTH.read, _value(part))) for part in _parts(text)]
    if len(widths) <= 1:
        return tuple(widths or [1]) * len(names)
    if len(widths) != len(names):
        raise ValueError(
            f"{len(widths)} numbers for {len(names)} stages ({', '.join(names)}): write one for "
            "all, or one for each"
        )
    return tuple(widths)


def read_system(text: str) -> str:
    """Return the name of a system; ValueError with the nearest."""
    if text not in SYSTEMS:
        raise ValueError(known(text, SYSTEMS, "system"))
    return text


def read_slow(text: str, names: list[str]) -> tuple[str, Number] | None:
    """Return the stage that slows down and to what: ``sink:3000``; None for no text."""
    if not text:
        return None
    name, colon, rate = text.partition(":")
    if name not in names:
        raise ValueError(known(name, names, "stage"))
    if not colon:
        raise ValueError(f"{show(text)} has no rate: write {name}:RATE, in records/s")
    return name, read_rate(rate)


def read_sink(text: str) -> tuple[str, Number] | None:
    """Return a connector and what an answer takes, ms: ``kafka:5``; None for no text or none."""
    if text in {"", NO_SINK}:
        return None
    kind, colon, latency = text.partition(":")
    if kind.strip() not in SINKS:
        raise ValueError(known(kind.strip(), SINKS, "connector"))
    if not colon:
        raise ValueError(f"{show(text)} has no latency: write {kind}:MS, what an answer takes")
    return kind.strip(), f.write_number(_checked(_LATENCY.read, _value(latency)))


def read_system_and_slow(text: str, names: list[str]) -> tuple[str, tuple[str, Number] | None]:
    """Return a system and what slows down, of which each may be left out: ``flink, sink:3000``."""
    systems = [part for part in _parts(text) if ":" not in part]
    slow = [part for part in _parts(text) if ":" in part]
    if len(systems) > 1 or len(slow) > 1:
        raise ValueError(f"{show(text)}: write one system and one NAME:RATE, or one of the two")
    return read_system(systems[0] if systems else SYSTEMS[0]), read_slow("".join(slow), names)


def _parts(text: str) -> list[str]:
    """Return the parts of a list, with commas or blanks between them."""
    return [part for part in re.split(r"[,\s]+", re.sub(r"\s*:\s*", ":", text.strip())) if part]


def _value(text: str) -> object:
    """Return what YAML reads there; text that is none stays text."""
    try:
        value: object = read_yaml_value(text)
    except yaml.YAMLError:
        return text
    return value


def _checked(read: Callable[[V], T], value: V) -> T:
    try:
        return read(value)
    except PydanticCustomError as error:
        raise ValueError(error.message()) from error
