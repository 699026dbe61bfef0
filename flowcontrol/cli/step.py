"""``flowcontrol step``: a page that steps through a run, round by round."""

import argparse

from flowcontrol.cli.command import add_quiet, add_scenario, set_run


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "Write a page that steps through a run on the virtual clock: every buffer, credit and "
        "message of each round from one moment to another."
    )
    add_scenario(parser)
    parser.add_argument(
        "--from", required=True, metavar="S", dest="from_s", help="first moment to show, seconds"
    )
    parser.add_argument(
        "--to", required=True, metavar="S", dest="to_s", help="last moment to show, seconds"
    )
    parser.add_argument(
        "--systems",
        metavar="NAME,NAME",
        help="presets to show side by side, as listed by `flowcontrol systems`; default: the "
        "scenario's own system",
    )
    parser.add_argument(
        "--out", metavar="FILE", help="page to write; default: out/<scenario name>-steps.html"
    )
    add_quiet(parser)
    set_run(parser, _step, "the page", "interrupted; nothing was written")


def _step(options: argparse.Namespace) -> int:
    from flowcontrol.stepview.step import step

    step(
        options.scenario,
        options.from_s,
        options.to_s,
        systems=options.systems,
        overrides=options.set,
        out=options.out,
        quiet=options.quiet,
    ).show()
    return 0
