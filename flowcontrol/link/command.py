"""``flowcontrol link``: show a link, alter its settings, remove a receiver. Needs no JVM."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from flowcontrol.errors import LinkError

if TYPE_CHECKING:
    from flowcontrol.link.link import Link

UNSET = "none"


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands; each sets ``act``, a function that returns what is to be printed.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of ``flowcontrol link``.
    """
    parser.description = "Show a link, change its settings, or remove a receiver from it."
    commands = parser.add_subparsers(required=True, metavar="ACTION")
    _add(commands.add_parser("show", help="show settings and members", allow_abbrev=False), _show)
    alter = commands.add_parser(
        "alter", help="change settings of a link that is in use", allow_abbrev=False
    )
    _add(alter, _alter)
    alter.add_argument(
        "--set",
        action="append",
        required=True,
        metavar="NAME=VALUE",
        help=f"such as detach_after_bytes=1gb; {UNSET} unsets a setting; may be repeated",
    )
    remove = commands.add_parser(
        "remove-receiver", help="remove a receiver that does not come back", allow_abbrev=False
    )
    _add(remove, _remove)
    remove.add_argument("name", metavar="NAME", help="of the receiver")


def _add(
    parser: argparse.ArgumentParser, act: Callable[[argparse.Namespace], Iterator[str]]
) -> None:
    parser.add_argument("path", metavar="PATH", help="folder of the link")
    parser.set_defaults(act=lambda options: "\n".join(act(options)))


def _open(options: argparse.Namespace) -> Link:
    from flowcontrol.link.link import open_link  # with pyarrow: not for a text of help

    return open_link(options.path)


def _show(options: argparse.Namespace) -> Iterator[str]:
    link = _open(options)
    yield f"link {link.storage}"
    for name, value in json.loads(link.settings.to_json()).items():
        if name == "schema":
            fields = json.loads(value)["fields"] if value else []
            value = ", ".join(f"{field['name']} {_type(field['type'])}" for field in fields)
        elif isinstance(value, list):
            value = ", ".join(value)
        if name not in ("format", "link_id"):
            yield f"  {name:<20} {UNSET if value is None or value == '' else value}"
    yield from _members(link)


def _type(kind: object) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)


def _members(link: Link) -> Iterator[str]:
    from flowcontrol.ledger.link_ledger import LinkLedgerView
    from flowcontrol.link.members import ranges, receivers_of, senders_of

    view = LinkLedgerView(link.storage.child("ledger"))
    if view.storage.exists("_delta_log"):
        view.refresh()
    for sender in senders_of(view):
        cut_off = f", has cut off {', '.join(sender.detached)}" if sender.detached else ""
        yield f"sender {sender.name}: {sum(sender.records)} rows written{cut_off}"
    for receiver in receivers_of(view):
        yield f"receiver {receiver.group}: channels {ranges(receiver.channels)}"


def _alter(options: argparse.Namespace) -> Iterator[str]:
    link, given = _open(options), dict[str, object]()
    for text in options.set:
        name, sign, value = text.partition("=")
        if not sign:
            raise LinkError(f"--set {text}: needs NAME=VALUE, such as detach_after_bytes=1gb")
        given[name] = _value(name, value)
    settings = link.alter(**given)
    for name in given:
        value = getattr(settings, name)
        yield f"{name} is {UNSET if value is None else value}"


def _value(name: str, text: str) -> object:
    """Return a value as ``Link.alter`` takes it: a number for seconds, a text for a size."""
    if text.lower() == UNSET:
        return None
    if name != "target_batch_s":
        return text
    try:
        return float(text)
    except ValueError:
        return text


def _remove(options: argparse.Namespace) -> Iterator[str]:
    _open(options).remove_receiver(options.name)
    yield f"receiver {options.name} is removed: no sender waits for it any more"
