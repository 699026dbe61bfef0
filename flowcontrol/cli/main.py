"""The command ``flowcontrol``; also ``python -m flowcontrol``.

A command is a module of this package with ``add``, which gives its parser arguments and sets
``run``, a function of what was read that returns the exit status. Only the chosen one is imported.
"""

import argparse
import gc
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from flowcontrol.cli.command import FAILED, INTERRUPTED, Parser, note, refuse, unread_dropped
from flowcontrol.errors import FlowControlError
from flowcontrol.version import __version__


class Command(NamedTuple):
    """A command: its name and what the help says of it."""

    name: str  # As it is typed; its module in this package has the same
    help: str  # One line

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Import the command's module, and let it give the parser its arguments."""
        import_module(f"flowcontrol.cli.{self.name}").add(parser)


COMMANDS: Final = (
    Command("new", "write a first scenario, from questions or flags"),
    Command("schema", "print a JSON schema of scenarios, for editors"),
    Command("emulate", "run a scenario: rates, latency, buffers, the bottleneck"),
    Command("sweep", "run many variants of a scenario, into one table"),
    Command("tune", "find the best values of keys, with fewer runs than a sweep"),
    Command("compare", "run a scenario under several systems' flow control"),
    Command("step", "step through a run: each buffer, credit and message of a round"),
    Command("calibrate", "make a scenario from a running job, and predict the job"),
    Command("scale", "let DS2 or Flink's autoscaler change the parallelism of a run"),
    Command("capacity", "find the highest rate that a source can sustain"),
    Command("advise", "try changes that would help: parallelism, buffers, placement"),
    Command("plan", "show the network buffers of a scenario"),
    Command("deploy", "show the graphs and slots that Flink makes of a scenario"),
    Command("systems", "list the known systems"),
    Command("link", "show or change a link"),
    Command("watch", "show links live"),
)
"""All commands, in the order of the help."""

MADE_BETWEEN_COLLECTIONS: Final = 100_000
"""Objects that a command makes before the garbage collector runs; Python's own value is 700."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status.

    ``arguments``: by default those of the process.

    0; 2 if the command is refused, for example because a path is not a link; 1 if it fails later;
    130 if a run is interrupted.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if arguments is None:
        # Nearly all objects of a thousand modules stay: looking through them while more load is a
        # sixth of a short command.
        gc.set_threshold(MADE_BETWEEN_COLLECTIONS, 30, 30)
    return _run(_parser(words).parse_args(words))


def pipeline(name: str, arguments: Sequence[str] | None = None) -> int:
    """Run one command in the form that spark-submit expects: a file of its own.

    ``arguments``: by default those of the process.
    """
    parser = Parser(prog=sys.argv[0])
    next(command for command in COMMANDS if command.name == name).add(parser)
    return _run(parser.parse_args(arguments))


def _run(options: argparse.Namespace) -> int:
    run: Callable[[argparse.Namespace], int] = options.run
    with unread_dropped() if getattr(options, "drops_unread", True) else nullcontext():
        try:
            return run(options)
        except FlowControlError as error:
            return refuse(str(error))
        except OSError as error:  # a file that must not be read, a full disk
            note(" ".join(str(error).split()))
            return FAILED
        except KeyboardInterrupt:
            note("interrupted")
            return INTERRUPTED


class _Help(argparse.HelpFormatter):
    """Help with room for the longest command beside what is said of it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        # argparse leaves the indentation of commands below a title out of its own count.
        self._action_max_length = max(len(command.name) for command in COMMANDS) + 4


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the whole; of its commands only the chosen one has arguments."""
    parser = Parser(
        prog=_typed(sys.argv[0]),
        description="Backpressure in stream processing: emulate it, or put it into a pipeline.",
        epilog="`flowcontrol COMMAND --help` describes a command.",
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"flowcontrol {__version__}")
    chosen = next((word for word in words if not word.startswith("-")), None)
    found = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for command in COMMANDS:
        own = found.add_parser(command.name, help=command.help)
        if command.name == chosen:
            command.add(own)
    return parser


def _typed(program: str) -> str:
    """Return what a user types to start this program: ``python -m flowcontrol`` or its name."""
    is_module = Path(program).parts[-2:] == ("flowcontrol", "__main__.py")
    return "python -m flowcontrol" if is_module else "flowcontrol"
