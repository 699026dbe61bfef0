"""The command ``flowcontrol``; also ``python -m flowcontrol``. No command needs a JVM."""

import argparse
import sys
from collections.abc import Callable, Sequence

from flowcontrol.cli import new, schema
from flowcontrol.cli.command import FAILED, REFUSED, add_overrides, say
from flowcontrol.errors import FlowControlError
from flowcontrol.version import __version__

SHORTEST_S, LONGEST_S = 0.1, 3600.0
"""Range of the polling interval, s; a poll costs some milliseconds."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        0, after Ctrl-C too; 2 if the command is refused, for example because a path is not a
        link; 1 if reading fails later.
    """
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except FlowControlError as error:
        return _refuse(str(error))
    except (KeyboardInterrupt, BrokenPipeError):  # Ctrl-C, or `| head` has read enough
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flowcontrol",
        description="Credit-based flow control between streaming queries.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"flowcontrol {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, text, add in (
        ("watch", "show links live", _add_watch),
        ("link", "show or change a link", _add_link),
        ("systems", "list the known systems", _add_systems),
        ("plan", "show the network buffers of a scenario", _add_plan),
        ("new", "write a first scenario, from questions or flags", new.add),
        ("schema", "print a JSON schema of scenarios, for editors", schema.add),
    ):
        add(commands.add_parser(name, help=text, allow_abbrev=False))
    return parser


def _add_link(parser: argparse.ArgumentParser) -> None:
    from flowcontrol.link.command import add_commands

    add_commands(parser)
    parser.set_defaults(run=_link)


def _link(options: argparse.Namespace) -> int:
    sys.stdout.write(options.act(options) + "\n")
    return 0


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print the network buffers that a scenario requires and gets, per task manager, gate and "
        "result partition, next to the classic rule, and the option to change. The exit status is "
        "2 if there are too few."
    )
    parser.add_argument("scenario", metavar="SCENARIO", help="scenario file")
    add_overrides(parser)
    parser.set_defaults(run=_plan)


def _plan(options: argparse.Namespace) -> int:
    from flowcontrol.job.plan import plan_memory
    from flowcontrol.report.plan import describe_plan
    from flowcontrol.scenario.resolve import load_with_options

    scenario, stated = load_with_options(options.scenario, overrides=options.set)
    plan = plan_memory(scenario)
    sys.stdout.write(describe_plan(plan, stated) + "\n")
    if plan.failures:
        sys.stdout.flush()
        return _refuse("\n".join(plan.failures))
    return 0


def _add_systems(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the systems that a scenario can select with `system: NAME`, with their parameters, "
        "defaults and sources."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of a system; default: all")
    parser.set_defaults(run=_systems)


def _systems(options: argparse.Namespace) -> int:
    from flowcontrol.report.systems import describe_system, list_systems
    from flowcontrol.scenario.presets import ALIASES, PRESETS
    from flowcontrol.scenario.problems import known

    names = [ALIASES.get(name, name) for name in options.names]
    for name in names:
        if name not in PRESETS:
            return _refuse(known(name, [*PRESETS, *ALIASES], "system"))
    texts = [] if names else [list_systems()]
    texts += [describe_system(name) for name in names or PRESETS]
    sys.stdout.write("\n\n".join(texts) + "\n")
    return 0


def _add_watch(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show backlog, credit, batch times and backpressure of links, and which stage is the "
        "bottleneck. Name the links of a chain in the order in which rows pass them."
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="folder of a link")
    parser.add_argument(
        "--every",
        type=_seconds(SHORTEST_S, LONGEST_S),
        default=2.0,
        metavar="S",
        help="polling interval, seconds; default 2",
    )
    parser.add_argument(
        "--window",
        type=_seconds(1.0, LONGEST_S),
        default=10.0,
        metavar="S",
        help="window of rates and shares, seconds; default 10",
    )
    parser.add_argument("--once", action="store_true", help="print one table and exit")
    parser.add_argument(
        "--port",
        type=_port,
        help="serve the figures to Prometheus on this port; no tables are printed unless standard "
        "output is a terminal",
    )
    parser.add_argument(
        "--address",
        default="127.0.0.1",
        help="address to serve on; default 127.0.0.1, reachable from this machine only",
    )
    parser.set_defaults(run=_watch)


def _seconds(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r} is out of range: needs seconds, at least {least:g} and at most {most:g}"
            )
        return value

    return read


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is out of range: needs a port, 1 to 65535")
    return int(text)


def _watch(options: argparse.Namespace) -> int:
    from flowcontrol.link.monitoring.watch import WatchConsole, open_monitors, watch

    if options.once and options.port is not None:
        return _refuse("--once and --port exclude each other: nothing could read the port in time")
    monitors = open_monitors(options.paths, options.window)
    console = WatchConsole(highlight=False)
    on_snapshots, stop = None, None
    if options.port is not None:
        from flowcontrol.link.monitoring.prometheus import LinkCollector, serve

        collector = LinkCollector()
        stop = serve(collector, options.port, options.address)
        on_snapshots = collector.note
        _say(f"serving http://{options.address}:{options.port}/metrics")
        console.quiet = not console.is_terminal
    try:
        watch(monitors, console, options.every, once=options.once, on_snapshots=on_snapshots)
    except FlowControlError as error:
        _say(str(error))
        return FAILED
    finally:
        if stop is not None:
            stop()
    return 0


def _refuse(text: str) -> int:
    _say(text)
    return REFUSED


def _say(text: str) -> None:
    say(f"flowcontrol: {text}")
