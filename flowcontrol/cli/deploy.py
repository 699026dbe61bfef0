"""``flowcontrol deploy``: the graphs and slots that Flink makes of a program, on a page."""

import argparse
import sys

from flowcontrol.cli.command import add_folder, add_scenario, set_run


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "Print the graphs that Flink makes of a scenario (operators, chained vertices, subtasks "
        "and channels, slots and task managers), and write them to graphs.json and a page. This "
        "runs nothing. The exit status is 2 if there are too few slots."
    )
    add_scenario(parser)
    add_folder(parser, "graphs", "graphs")
    set_run(parser, run, "the deployment")


def run(options: argparse.Namespace) -> int:
    """Print the graphs and write them; return the exit status."""
    from flowcontrol.run.plan import deploy

    found = deploy(
        options.scenario, overrides=options.set, out=options.out, overwrite=options.overwrite
    )
    found.show()
    sys.stdout.flush()
    return 0
