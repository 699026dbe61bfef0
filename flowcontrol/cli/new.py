"""``flowcontrol new``: a first scenario, from five questions or from flags."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flowcontrol.cli.command import refuse
from flowcontrol.errors import Problem, ScenarioError

if TYPE_CHECKING:
    from flowcontrol.layout.sketch import Sketch


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.description = (
        "Write a commented scenario that runs on the virtual clock. Without flags, in a terminal, "
        "it asks five questions. A file that exists is not overwritten."
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
    parser.add_argument("--out", metavar="FILE", help="file to write; default NAME.yaml")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask or read the flags, write the file; return 0, or 2 with nothing written."""
    from flowcontrol.cli.new import ask, check_new, from_flags
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
