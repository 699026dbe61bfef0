"""``flowcontrol plan``: the network buffers that a scenario requires and gets."""

import argparse
import sys

from flowcontrol.cli.command import add_scenario, refuse


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "Print the network buffers that a scenario requires and gets, per task manager, gate and "
        "result partition, next to the classic rule, and the option to change. The exit status is "
        "2 if there are too few."
    )
    add_scenario(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the plan; return the exit status."""
    from flowcontrol.run.plan import plan

    found = plan(options.scenario, overrides=options.set)
    found.show()
    if found.failures:
        sys.stdout.flush()
        return refuse("\n".join(found.failures))
    return 0
