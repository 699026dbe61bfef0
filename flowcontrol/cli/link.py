"""``flowcontrol link``: show a link, or change it."""

import argparse
import sys

from flowcontrol.link.command import add_commands


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its actions; each sets ``act``, which returns what is to be printed."""
    add_commands(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do the chosen action; return the exit status."""
    sys.stdout.write(options.act(options) + "\n")
    return 0
