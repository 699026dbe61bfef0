"""``flowcontrol link``: show a link, or change it."""

import argparse
import sys

from flowcontrol.cli.command import AGAIN, INTERRUPTED, note
from flowcontrol.link.command import add_commands


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its actions; each sets ``act``, which yields the lines to print."""
    add_commands(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do the chosen action; return the exit status."""
    try:
        for line in options.act(options):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    except KeyboardInterrupt:
        note(AGAIN)
        return INTERRUPTED
    return 0
