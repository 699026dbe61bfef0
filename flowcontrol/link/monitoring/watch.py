"""Show links periodically: in place on a terminal, one table after another elsewhere."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console, RenderableType
from rich.live import Live

from flowcontrol.ledger.paths import read_place
from flowcontrol.link.monitoring.figures import LinkSnapshot
from flowcontrol.link.monitoring.monitor import WINDOW_S, LinkMonitor
from flowcontrol.link.monitoring.table import render

LEAST_CHANNELS = 1
"""Channels that are shown on the smallest terminal."""


class WatchConsole(Console):
    """A console that raises BrokenPipeError for a closed pipe; rich's own exits with status 1."""

    def on_broken_pipe(self) -> None:
        """Discard all further output, also at exit, and raise BrokenPipeError."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise BrokenPipeError


def labels(paths: Sequence[str]) -> list[str]:
    """Return short names of links: the shortest ends of the paths that differ."""
    parts = [path.rstrip("/").split("/") for path in paths]
    for length in range(1, max((len(own) for own in parts), default=0) + 1):
        found = ["/".join(own[-length:]) for own in parts]
        if len(set(found)) == len(found):
            return found
    return list(paths)


def open_monitors(paths: Sequence[str], window_s: float = WINDOW_S) -> list[LinkMonitor]:
    """Return a monitor of each link.

    Raises LinkError, LedgerError if one of the paths is not a link, or no path.
    """
    absolute = [read_place(path).root for path in paths]
    named = zip(absolute, labels(absolute), strict=True)
    return [LinkMonitor(path, label, window_s) for path, label in named]


def watch(
    monitors: Sequence[LinkMonitor],
    console: Console,
    every_s: float,
    *,
    once: bool = False,
    on_snapshots: Callable[[Sequence[LinkSnapshot]], None] | None = None,
) -> None:
    """Print snapshots of links until interrupted.

    - ``monitors``: in the order in which rows pass.
    - ``every_s``: time between two snapshots, seconds.
    - ``on_snapshots``: called with each round of snapshots.

    Raises LinkError if a link is gone.
    """
    is_live = console.is_terminal and not once
    live = Live(console=console, auto_refresh=False) if is_live else None
    context: AbstractContextManager[object] = nullcontext() if live is None else live
    with context:
        while True:
            started = time.monotonic()
            snapshots = [monitor.snapshot() for monitor in monitors]
            if on_snapshots is not None:
                on_snapshots(snapshots)
            if live is not None:
                live.update(fitting(snapshots, console), refresh=True)
            else:
                console.print(render(snapshots))
            if once:
                return
            if live is None:
                console.print()
                sys.stdout.flush()
            time.sleep(max(0.0, every_s - (time.monotonic() - started)))


def fitting(snapshots: Sequence[LinkSnapshot], console: Console) -> RenderableType:
    """Return a render with as many channels as the terminal has lines for."""
    whole = render(snapshots)
    over = len(console.render_lines(whole)) - console.size.height + 1
    if over <= 0:
        return whole
    pairs = sum(len({(c.sender, c.receiver) for c in snapshot.channels}) for snapshot in snapshots)
    most = max((len({c.channel for c in snapshot.channels}) for snapshot in snapshots), default=0)
    pairs += sum(  # a table of event time has a line a channel too
        len({(c.sender, c.receiver) for c in snapshot.channels})
        for snapshot in snapshots
        if snapshot.event_time_column is not None
    )
    left_out = -(-over // max(1, pairs)) + 1  # and a line that says so
    return render(snapshots, max(LEAST_CHANNELS, most - left_out))
