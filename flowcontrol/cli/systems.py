"""``flowcontrol systems``: the systems that a scenario can select."""

import argparse
import sys

from flowcontrol.cli.command import refuse


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "List the systems that a scenario can select with `system: NAME`, with their parameters, "
        "defaults and sources."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of a system; default: all")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List the systems; return the exit status."""
    from flowcontrol.cli.systems import describe_system, list_systems
    from flowcontrol.scenario.problems import known
    from flowcontrol.scenario.system import ALIASES, PRESETS

    names = [ALIASES.get(name, name) for name in options.names]
    for name in names:
        if name not in PRESETS:
            return refuse(known(name, [*PRESETS, *ALIASES], "system"))
    texts = [] if names else [list_systems()]
    texts += [describe_system(name) for name in names or PRESETS]
    sys.stdout.write("\n\n".join(texts) + "\n")
    return 0
