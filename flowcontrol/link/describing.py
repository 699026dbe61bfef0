"""A link's settings, members, backlog and space, as ``flowcontrol link show`` prints them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from flowcontrol.ledger.storage import Storage
from flowcontrol.link.folder import EXCHANGE, LEDGER, figures_of
from flowcontrol.link.members import drain_of, ranges, view_of
from flowcontrol.link.monitoring.figures import LinkSnapshot, ReceiverSnapshot, duration, size
from flowcontrol.link.settings import EVENT_SETTINGS, UNSET, LinkSettings, read_settings


def describe(storage: Storage) -> dict[str, Any]:
    """Return a link as plain JSON.

    Returns ``path``; ``settings``, with ``columns`` in place of Spark's schema; ``senders`` and
    ``receivers``, each with its name, state, rows, backlog (rows, bytes) and the seconds since its
    last commit, receivers with the watermark of a link with event time; ``drain``, which is
    running, done or None; ``disk_bytes`` of the two tables. Raises LinkError if there is no link.
    """
    found = figures_of(storage)
    settings = read_settings(storage)
    assert settings is not None  # or its figures had been refused
    return {
        "path": str(storage),
        "settings": _settings(settings),
        "senders": [
            {
                "name": one.name,
                "state": "blocked" if one.waiting_bytes else "idle",
                "rows_written": one.rows_written,
                "waiting_bytes": one.waiting_bytes,
                "pool_used": one.pool_used,
                "pool_size": one.pool_size,
                "last_commit_s": round(one.silent_s, 3),
            }
            for one in found.senders
        ],
        "receivers": [_receiver(found, one) for one in found.receivers],
        "drain": drain_of(view_of(storage)),
        "disk_bytes": {name: _size(storage.child(name)) for name in (EXCHANGE, LEDGER)},
    }


def _settings(settings: LinkSettings) -> dict[str, Any]:
    known = asdict(settings)
    fields = json.loads(settings.schema)["fields"] if settings.schema else []
    known.pop("schema")
    known["columns"] = [
        f"{one['name']} {one['type'] if isinstance(one['type'], str) else json.dumps(one['type'])}"
        for one in fields
    ]
    return known


def _receiver(found: LinkSnapshot, one: ReceiverSnapshot) -> dict[str, Any]:
    own = found.channels_of(one)
    state = "starting" if one.is_starting else "idle" if one.running_s is None else "in a batch"
    return {
        "name": one.name,
        "channels": list(one.channels),
        "state": "detached" if one.is_detached else state,
        "rows_read": one.rows_read,
        "backlog_rows": sum(c.backlog_rows for c in own),
        "backlog_bytes": sum(c.backlog_bytes for c in own),
        "backlog_age_s": round(max((c.age_s for c in own), default=0.0), 3),
        "last_batch_s": None if one.batch_s is None else round(one.batch_s, 3),
        "target_batch_s": one.target_s,
        "last_commit_s": round(one.silent_s, 3),
        **_time(found, one),
    }


def _time(found: LinkSnapshot, one: ReceiverSnapshot) -> dict[str, Any]:
    """Return a receiver's watermark; nothing if the link has no event time."""
    if found.event_time_column is None:
        return {}
    lag_s = one.watermark_lag_s
    return {
        "watermark_ms": one.watermark_ms,
        "watermark_lag_s": None if lag_s is None else round(lag_s, 3),
        "paused_senders": list(one.paused),
    }


def _size(table: Storage) -> int:
    total = 0
    for name, _ in table.files():
        with suppress(FileNotFoundError):  # trimmed since it was listed
            total += table.size(name)
    return total


def shown(link: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a link for a terminal of 80 columns."""
    drain = {"running": " is being drained", "done": " is drained"}.get(link["drain"], "")
    yield f"link {link['path']}{drain}"
    for name, value in link["settings"].items():
        has_time = link["settings"]["event_time_column"] is not None
        if name != "link_id" and (has_time or name not in EVENT_SETTINGS):
            text = ", ".join(value) if isinstance(value, list | tuple) else value
            if name.endswith("_bytes") and value:
                text = f"{value} ({size(value)})"
            yield f"  {name:<20} {UNSET if text is None or text == '' else text}"
    disk = link["disk_bytes"]
    yield f"  {'on disk':<20} " + ", ".join(f"{name} {size(disk[name])}" for name in disk)
    for kind in _COLUMNS:
        yield from _members(kind, link[kind])


_COLUMNS: dict[str, dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "senders": {
        "sender": lambda one: str(one["name"]),
        "state": lambda one: str(one["state"]),
        "rows written": lambda one: f"{one['rows_written']}",
        "waits": lambda one: size(one["waiting_bytes"]),
        "pool": lambda one: f"{one['pool_used']}/{one['pool_size']}",
        "last commit": lambda one: f"{duration(one['last_commit_s'])} ago",
    },
    "receivers": {
        "receiver": lambda one: f"{one['name']} {ranges(one['channels'])}",
        "state": lambda one: str(one["state"]),
        "unread rows": lambda one: f"{one['backlog_rows']}",
        "bytes": lambda one: size(one["backlog_bytes"]),
        "oldest": lambda one: duration(one["backlog_age_s"]) if one["backlog_rows"] else "-",
        "last batch": lambda one: _known(one["last_batch_s"]),
        "last commit": lambda one: f"{duration(one['last_commit_s'])} ago",
    },
}


def _known(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def _members(kind: str, members: list[dict[str, Any]]) -> Iterator[str]:
    from rich.console import Console
    from rich.table import Table

    yield ""
    if not members:
        yield f"no {kind[:-1]} yet"
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    first, *heads = _COLUMNS[kind]
    table.add_column(first, overflow="fold")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for one in members:
        table.add_row(*(cell(one) for cell in _COLUMNS[kind].values()))
    console = Console(width=80, no_color=True, highlight=False)
    with console.capture() as captured:
        console.print(table)
    yield from (line.rstrip() for line in captured.get().rstrip("\n").split("\n"))
