"""What the commands share: parser, arguments, exit status, messages, broken pipes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from flowcontrol.errors import FlowControlError, ScenarioError

REFUSED = 2
FAILED = 1
INTERRUPTED = 130
"""What a shell reports of a process that Ctrl-C ended (128 + SIGINT)."""

AGAIN = "interrupted; run the same command again to continue"
"""What Ctrl-C leaves to do."""


def add_scenario(parser: argparse.ArgumentParser) -> None:
    """Add the scenario and ``--set``."""
    parser.add_argument("scenario", type=Path, help="scenario file, such as conf/experiment.yaml")
    add_overrides(parser)


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add ``--set``."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one key of the scenario, such as duration_s=20; may be repeated",
    )


def add_folder(parser: argparse.ArgumentParser, noun: str, suffix: str) -> None:
    """Add ``--out`` and ``--overwrite``; without ``--out`` the suffix ends the folder's name."""
    parser.add_argument(
        "--out", help=f"folder of the results; default: out/<scenario name>-{suffix}"
    )
    parser.add_argument("--overwrite", action="store_true", help=f"replace the {noun} in --out")


def add_processes(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    """Add ``--processes``."""
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help=f"{prefix}run in N processes of this machine, without Spark",
    )


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add ``--quiet``."""
    parser.add_argument(
        "--quiet", action="store_true", help="show neither progress nor what takes long"
    )


def exit_status(command: Callable[[], int], noun: str, interrupted: str = AGAIN) -> int:
    """Run a command; return its exit status.

    Returns the command's own; 2 if it is refused, 1 if it fails, 130 if it is interrupted.
    """
    try:
        return command()
    except ScenarioError as error:
        return refuse(str(error))
    except FlowControlError as error:
        note(f"{noun} failed: {error}")
        return FAILED
    except OSError as error:  # a full disk, a folder that was removed meanwhile
        note(f"{noun} failed: {' '.join(str(error).split())}")
        return FAILED
    except KeyboardInterrupt:
        note(interrupted)
        return INTERRUPTED


def set_run(
    parser: argparse.ArgumentParser,
    work: Callable[[argparse.Namespace], int],
    noun: str,
    interrupted: str = AGAIN,
) -> None:
    """Have a parser's command do its work, with the status and messages of :func:`exit_status`."""
    parser.set_defaults(run=lambda options: exit_status(lambda: work(options), noun, interrupted))


def say(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{text}\n")


def note(text: str) -> None:
    """Write a line to standard error, with the program's name before it."""
    say(f"flowcontrol: {text}")


def refuse(text: str) -> int:
    """Say why a command is refused; return its exit status."""
    note(text)
    return REFUSED


class Parser(argparse.ArgumentParser):
    """argparse's parser, which names the nearest command, option or choice for an unknown one."""

    def __init__(self, *arguments: Any, **given: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **given})

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message; exit with status 2."""
        self.print_usage(sys.stderr)
        sys.exit(refuse(message))

    def parse_known_args(  # type: ignore[override]  # one of argparse's overloads
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what is unknown here: the parser of a command knows its own options."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error("; ".join(self._unknown(rest)))
        return found, rest

    def _unknown(self, words: Sequence[str]) -> Iterator[str]:
        options = [word.partition("=")[0] for word in words if word.startswith("-")]
        for option in options:
            yield f"unknown option {option!r}{_nearest(option, self._option_string_actions)}"
        if not options:  # a word behind an unknown option may be its value
            yield f"{' '.join(words)!r} is one argument too many: leave it out"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        if isinstance(action, argparse._SubParsersAction):
            text = f"unknown {str(action.metavar).lower()} {value!r}"
        else:
            text = f"{'/'.join(action.option_strings)}: unknown value {value!r}"
        known = [str(choice) for choice in action.choices]
        self.error(f"{text}{_nearest(str(value), known)} (known: {', '.join(known)})")


def _nearest(word: str, known: Any) -> str:
    from flowcontrol.scenario.problems import nearest

    return nearest(word, known)


@contextmanager
def unread_dropped() -> Iterator[None]:
    """Drop what a command writes to a pipe that nobody reads any more, or to no stream at all.

    Without it rich ends the process with status 1, and what a command does behind the line that
    could not be written is left undone. A character that the stream's encoding lacks becomes "?".
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _Unread(_usable(stream))) for stream in before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def _usable(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed by the shell: >&-
        return Path(os.devnull).open("w", encoding="utf-8")
    if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="replace")
    return stream


class _Unread:
    """A stream that leads nowhere once its pipe is broken."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        self._tried(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write what is kept, or drop it."""
        self._tried(self._stream.flush)

    def _tried(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())  # what Python writes at its end, too
            os.close(nowhere)
