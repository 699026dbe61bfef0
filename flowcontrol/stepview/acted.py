"""Which rules have acted in a round: read off the counters of two states, not worked out again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flowcontrol.stepview.shown import Shown

Figures = dict[str, Any]


class System:
    """What of a system decides how its rules are called.

    Parameters
    ----------
    transport : str
        Its transport.
    counts_records : bool
        Whether that counts records rather than buffers.
    """

    def __init__(self, transport: str, counts_records: bool) -> None:
        self.is_tcp = transport == "tcp"
        self.counts_records = counts_records
        self.has_credit = transport == "credit"


def add_rules(
    before: Shown | None,
    now: Shown,
    system: System,
    local: set[str],
    outputs: Mapping[str, Sequence[str]],
) -> None:
    """Give everything in a state the ``rules`` that have acted on it in its round.

    Parameters
    ----------
    before : Shown or None
        The state of the round before; None of the first one, in which nothing is known to act.
    now : Shown
        Changed in place: each task, channel, gate and partition gets names of ``rules.yaml``.
    system : System
        Whose rules they are.
    local : set of str
        Names of channels between tasks of one task manager.
    outputs : mapping of str to sequence of str
        The result partitions of each task.
    """
    old = before or now
    for name, channel in now["channels"].items():
        channel["rules"] = list(_of_channel(old["channels"][name], channel, system, name in local))
    for kind in ("gates", "partitions"):
        for name, pool in now[kind].items():
            pool["rules"] = list(_of_pool(old[kind][name], pool))
    for name, task in now["tasks"].items():
        is_hard = any(now["partitions"][part]["left_bytes"] > 0 for part in outputs[name])
        task["rules"] = list(_of_task(old["tasks"][name], task, is_hard=is_hard))


def _of_channel(old: Figures, now: Figures, system: System, is_local: bool) -> Iterator[str]:
    def grew(name: str) -> bool:
        return bool(now[name] > old[name])

    waits = now["credit"] == 0 and now["backlog"] > 0
    if grew("released"):
        yield "finish"
    if is_local:
        yield "local"
    elif system.counts_records:
        yield from _of_records(grew, now)
    elif system.is_tcp:
        yield from ["tcp_write"] if grew("sent") else []
    else:
        yield from ["send"] if grew("sent") else []
        yield from ["no_credit"] if waits and not now["is_blocked"] else []
        yield from ["hear_credit"] if grew("heard") else []
        yield from ["announce"] if grew("announced") else []
        yield from ["wait_float"] if now["is_waiting"] else []
        yield from ["float"] if grew("floating_held") else []
    if not is_local and not system.counts_records:
        yield from ["receive"] if grew("arrived") else []
    if not system.counts_records and grew("consumed"):
        yield "recycle"
    yield from _of_barriers(old, now)


def _of_records(grew: Callable[[str], bool], now: Figures) -> Iterator[str]:
    if grew("sent"):
        yield "send_records"
    if grew("announced"):
        yield "grant"
    if now["backlog"] > 0 and now["credit"] == 0:
        yield "no_grant"


def _of_barriers(old: Figures, now: Figures) -> Iterator[str]:
    if now["is_blocked"] > old["is_blocked"]:
        yield "block"
    if now["is_blocked"] < old["is_blocked"]:
        yield "resume"
    if now["persisted"] > 0 and now["persisted"] != old["persisted"]:
        yield "overtake_out"
    if now["is_overtaken"] > old["is_overtaken"]:
        yield "overtake_in"


def _of_pool(old: Figures, now: Figures) -> Iterator[str]:
    if now["in_use"] > old["in_use"]:
        yield "request"
    if now["in_use"] < old["in_use"]:
        yield "release"
    if now["overdraft"] > 0:
        yield "overdraft"
    if now["free"] == 0 and now["in_use"] >= now["size"] > 0:
        yield "unavailable"
    if now.get("at_quota", 0) > 0:
        yield "quota"
    if now["size"] != old["size"]:
        yield "resize"


def _of_task(old: Figures, now: Figures, *, is_hard: bool) -> Iterator[str]:
    if now["blocked_us"] > 0:
        yield "hard" if is_hard else "soft"
    elif now["busy_us"] > 0:
        yield "work"
    elif now["idle_us"] > 0 and now["is_running"]:
        yield "starved"
    if now["is_aligning"]:
        yield "align"
    if now["checkpoint"] > old["checkpoint"]:
        yield "snapshot"
    if now["watermark_ms"] != old["watermark_ms"]:
        yield "watermark"
    if now["is_stopped"]:
        yield "stopped"
    elif now["gap_ns"] > 0 or now["may_emit"] >= 0:
        yield "slowed"
    if now["holds_senders"]:
        yield "holds"
