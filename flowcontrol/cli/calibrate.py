"""``flowcontrol calibrate``: from a running job to a scenario, and what it predicts."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from flowcontrol.cli.command import add_folder, add_quiet, note, set_run
from flowcontrol.errors import Problem, ScenarioError

if TYPE_CHECKING:
    from flowcontrol.calibration.draft import Draft

POLLS, EVERY_S = 13, 10.0
"""Defaults of :func:`flowcontrol.calibration.rest.poll`: two minutes."""


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "Make a scenario from a running job: rates, selectivities, sizes, shares, buffers. Then "
        "run it on the virtual clock, and compare predicted with observed figures. The file "
        "marks what is assumed because the input does not show it."
    )
    parser.add_argument(
        "--flink",
        metavar="DUMP",
        help="a Flink job: a dump of its REST API, polled at least twice, or the URL of its job "
        "manager, such as http://localhost:8081, which is then polled",
    )
    parser.add_argument(
        "--spark",
        metavar="FILE",
        help="a Spark query: its progress with batches of different sizes, from recentProgress, "
        "a listener, the driver's log or an event log",
    )
    parser.add_argument("--link", metavar="PATH", help="folder of a link between two queries")
    parser.add_argument("--job", metavar="ID", help="one of several Flink jobs, or Spark queries")
    parser.add_argument(
        "--polls", type=int, default=POLLS, metavar="N", help=f"URL: how often; default {POLLS}"
    )
    parser.add_argument(
        "--every",
        type=float,
        default=EVERY_S,
        metavar="S",
        help=f"URL: time between two polls, s; default {EVERY_S:g}, as often as Flink fetches them",
    )
    parser.add_argument("--save", metavar="FILE", help="URL: save the answers in this file")
    add_folder(parser, "calibration", "calibration")
    add_quiet(parser)
    set_run(parser, run, "the calibration", "interrupted")


def run(options: argparse.Namespace) -> int:
    """Read, fit, run and compare; return the exit status."""
    from flowcontrol.calibration.calibrate import calibrate

    draft = _draft(options)
    found = calibrate(draft, out=options.out, overwrite=options.overwrite, quiet=options.quiet)
    found.show()
    return 0


def _draft(options: argparse.Namespace) -> Draft:
    given = [name for name in ("flink", "spark", "link") if getattr(options, name) is not None]
    if not given or ("flink" in given and len(given) > 1):
        text = "give one of --flink, --spark and --link, or --spark together with --link"
        raise ScenarioError([Problem("calibrate", text)], "command")
    if "flink" in given:
        return _flink(options)
    for name, others in (("job", " or --spark alone"), ("save", "")):
        if getattr(options, name) is not None and (name != "job" or "link" in given):
            text = f"{getattr(options, name)}: only with --flink{others}; leave it out"
            raise ScenarioError([Problem(f"--{name}", text)], "command")
    from flowcontrol.calibration.link_ledger import fit_link
    from flowcontrol.calibration.spark_progress import fit_progress

    if "link" in given:
        return fit_link(options.link, options.spark)
    return fit_progress(options.spark, options.job)


def _flink(options: argparse.Namespace) -> Draft:
    from flowcontrol.calibration.bodies import check_save, read_dump, write_dump
    from flowcontrol.calibration.calibrate import check_folder
    from flowcontrol.calibration.fit_flink import fit_flink
    from flowcontrol.calibration.flink_rest import read_job
    from flowcontrol.calibration.rest import is_url, poll

    if not is_url(options.flink):
        if options.save is not None:
            text = f"{options.flink} is a dump already: leave --save out, or name a URL"
            raise ScenarioError([Problem("--save", text)], "command")
        return fit_flink(read_job(*read_dump(options.flink), options.job))
    if options.polls < 2 or not 0 < options.every <= 3600:
        text = (
            f"{options.polls} polls, one every {options.every:g} s: needs at least 2, and more "
            "than 0 and at most 3600 s"
        )
        raise ScenarioError([Problem("--polls, --every", text)], "command")

    check_folder(options.out, overwrite=options.overwrite)
    if options.save is not None:
        check_save(options.save)

    def say(done: int) -> None:
        if not options.quiet:
            note(f"poll {done} of {options.polls}")

    polls = poll(
        options.flink, job=options.job, polls=options.polls, every_s=options.every, watch=say
    )
    if options.save is not None:
        write_dump(options.save, polls)
    return fit_flink(read_job(*read_dump(polls), options.job))
