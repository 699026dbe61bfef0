"""Events to jump to: what begins between two states, such as a channel that runs out of credit."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from flowcontrol.stepview.shown import Shown

KINDS: Final = {
    "credit": "credit 0",
    "pool": "a pool empties",
    "barrier": "a barrier overtakes",
    "aligning": "a task aligns",
    "connection": "a connection stops",
    "blocked": "a task is blocked",
    "throttle": "a source is stopped",
    "failure": "a task fails or comes back",
}
"""Kinds of events, as the page calls them, in the order of its list."""


class Happening(NamedTuple):
    """Something that begins in a round.

    Attributes
    ----------
    kind : str
        One of ``KINDS``.
    name : str
        Of what: a channel, pool, task or connection.
    text : str
        What happened to it.
    """

    kind: str
    name: str
    text: str


def happenings(before: Shown, now: Shown) -> Iterator[Happening]:
    """Yield what has begun between two states of a job, one round after the other."""
    for name, channel in now["channels"].items():
        yield from _of_channel(name, before["channels"][name], channel)
    for kind, what in (("partitions", "result partition"), ("gates", "floating buffers")):
        for name, pool in now[kind].items():
            if _is_empty(pool) and not _is_empty(before[kind][name]):
                yield Happening("pool", name, f"{name}: {what}, none of {pool['size']} is free")
    for name, task in now["tasks"].items():
        yield from _of_task(name, before["tasks"][name], task)
    for name, wire in now["connections"].items():
        yield from _of_connection(name, before["connections"][name], wire)


def _is_empty(pool: dict[str, Any]) -> bool:
    return bool(pool["free"] == 0 and pool["in_use"] >= pool["size"] > 0)


def _of_channel(name: str, old: dict[str, Any], now: dict[str, Any]) -> Iterator[Happening]:
    if now["credit"] == 0 < old["credit"]:
        yield Happening("credit", name, f"{name}: credit 0, {now['backlog']} wait")
    if now["persisted"] > 0 and now["persisted"] != old["persisted"]:
        bytes_ = f"{now['persisted']:,} bytes at the sender"
        yield Happening("barrier", name, f"{name}: a barrier overtakes {bytes_}")
    if now["is_overtaken"] > old["is_overtaken"]:
        yield Happening("barrier", name, f"{name}: a barrier overtakes at the receiver")


def _of_task(name: str, old: dict[str, Any], now: dict[str, Any]) -> Iterator[Happening]:
    if now["is_aligning"] > old["is_aligning"]:
        yield Happening("aligning", name, f"{name}: the first barrier is in")
    if now["blocked_us"] > 0 and old["blocked_us"] == 0:
        yield Happening("blocked", name, f"{name}: blocked by its output")
    if now["is_stopped"] > old["is_stopped"]:
        yield Happening("throttle", name, f"{name}: the throttle stops it")
    if now["holds_senders"] > old["holds_senders"]:
        yield Happening("throttle", name, f"{name}: it stops its senders")
    if now["is_running"] != old["is_running"]:
        what = "runs" if now["is_running"] else "does not run any more"
        yield Happening("failure", name, f"{name}: {what}")


def _of_connection(name: str, old: dict[str, Any], now: dict[str, Any]) -> Iterator[Happening]:
    if now.get("auto_read", 1) < old.get("auto_read", 1):
        yield Happening("connection", name, f"connection {name}: not read any more")
    if now.get("is_writable", 1) < old.get("is_writable", 1):
        yield Happening("connection", name, f"connection {name}: above its high water mark")
