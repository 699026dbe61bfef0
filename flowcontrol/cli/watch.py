"""``flowcontrol watch``: links, live, without Spark."""

import argparse
from collections.abc import Callable

from flowcontrol.cli.command import FAILED, note, refuse
from flowcontrol.errors import FlowControlError

SHORTEST_S, LONGEST_S = 0.1, 3600.0
"""Range of the polling interval, s; a poll costs some milliseconds."""


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "Show backlog, credit, batch times and backpressure of links, and which stage is the "
        "bottleneck. Name the links of a chain in the order in which rows pass through them."
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
        help="serve the figures to Prometheus on this port; tables are printed only if standard "
        "output is a terminal",
    )
    parser.add_argument(
        "--address",
        default="127.0.0.1",
        help="address to serve on; default 127.0.0.1, reachable from this machine only",
    )
    parser.set_defaults(run=run, drops_unread=False)  # what nobody reads is not shown for ever


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


def run(options: argparse.Namespace) -> int:
    """Show the links until Ctrl-C; return the exit status."""
    from flowcontrol.link.monitoring.table import WatchConsole, open_monitors, watch

    if options.once and options.port is not None:
        return refuse("--once and --port exclude each other: nothing could read the port in time")
    monitors = open_monitors(options.paths, options.window)
    console = WatchConsole(highlight=False)
    on_snapshots, stop = None, None
    if options.port is not None:
        from flowcontrol.link.monitoring.prometheus import LinkCollector, serve

        collector = LinkCollector()
        stop = serve(collector, options.port, options.address)
        on_snapshots = collector.note
        note(f"serving http://{options.address}:{options.port}/metrics")
        console.quiet = not console.is_terminal
    try:
        watch(monitors, console, options.every, once=options.once, on_snapshots=on_snapshots)
    except FlowControlError as error:
        note(str(error))
        return FAILED
    except (KeyboardInterrupt, BrokenPipeError):  # Ctrl-C, or `| head` has read enough
        return 0
    finally:
        if stop is not None:
            stop()
    return 0
