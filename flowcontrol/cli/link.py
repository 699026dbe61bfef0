"""``flowcontrol link``: show a link, or change it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from flowcontrol.cli.command import AGAIN, INTERRUPTED, note
from flowcontrol.errors import LinkError

if TYPE_CHECKING:
    from flowcontrol.link.link import Link


UNSET = "none"

LONGEST_S = 366 * 86_400.0
"""Most of ``--wait``."""

Act = Callable[[argparse.Namespace], Iterator[str]]
"""Does what was asked for; yields lines to print."""


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its actions; each sets ``act``, which yields the lines to print."""
    parser.set_defaults(run=run)
    parser.description = "Create, show, change, move or delete a link, or retire a member."
    commands = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, act: Act, text: str, example: str) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=f"example: flowcontrol link {name} /lake/links/orders{example}",
        )
        made.add_argument("path", metavar="PATH", help="folder of the link")
        made.set_defaults(act=act)
        return made

    create = action(
        "create", _create, "make a link before its queries start", " --set key=customer"
    )
    _add_settings(create, required=False, example="channels=16")
    show = action("show", _show, "show settings, members, backlog and space on disk", "")
    show.add_argument("--json", action="store_true", help="print JSON")
    alter = action(
        "alter",
        _alter,
        "change settings of a link that is in use",
        " --set floating_buffers=64 --set target_batch_s=2",
    )
    _add_settings(alter, required=True, example="detach_after_bytes=1gb")
    remove = action(
        "remove-receiver", _remove_receiver, "remove a receiver that does not return", " audit"
    )
    remove.add_argument("name", metavar="NAME", help="name of the receiver")
    _add_force(remove, "even if it has unread rows, which it then never reads")
    remove = action("remove-sender", _remove_sender, "remove a sender that does not return", " old")
    remove.add_argument("name", metavar="NAME", help="name of the sender")
    remove.add_argument(
        "--finish",
        action="store_true",
        help="release the rows that it has left, and wait until receivers have read them",
    )
    drain = action(
        "drain", _drain, "keep senders out until receivers have read all, to go on without", ""
    )
    drain.add_argument("--wait", type=float, metavar="SECONDS", help="for ever by default")
    drain.add_argument("--undo", action="store_true", help="let senders in again instead")
    move = action("move", _move, "move a link to another folder", " /volumes/links/orders")
    move.add_argument("target", metavar="TARGET", help="new folder, empty or not yet there")
    _add_force(move, "cut off running members")
    delete = action("delete", _delete, "delete a link and everything in it", "")
    _add_force(delete, "even if members run or rows are unread, which are lost")


def _add_settings(parser: argparse.ArgumentParser, *, required: bool, example: str) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        required=required,
        metavar="NAME=VALUE",
        help=f"such as {example}; {UNSET} unsets a setting; may be repeated",
    )


def _add_force(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--force", action="store_true", help=text)


def _open(options: argparse.Namespace) -> Link:
    from flowcontrol.link.link import open_link  # with pyarrow: not for a text of help

    return open_link(options.path)


def _create(options: argparse.Namespace) -> Iterator[str]:
    from flowcontrol.ledger.storage import Storage
    from flowcontrol.link.link import Link
    from flowcontrol.link.monitoring.figures import size
    from flowcontrol.link.settings import DEFAULTS, read_made

    given = _given(options)
    unknown = [name for name in given if name not in DEFAULTS]
    if unknown:
        known = ", ".join(DEFAULTS)
        raise LinkError(f"{', '.join(unknown)} is not a setting of a link: {known} are")
    if read_made(Storage(options.path)) is not None:
        raise LinkError(
            f"{options.path}: a link is there already: flowcontrol link show {options.path}, or "
            "alter its settings with flowcontrol link alter"
        )
    link = Link(options.path, **{"channels": DEFAULTS["channels"], **given})
    own = link.settings
    buffers = own.channels * own.exclusive_buffers + own.most_floating
    bound = size(buffers * own.buffer_bytes)
    yield f"made the link {link.storage}: of each sender at most {bound} are in flight"


def _show(options: argparse.Namespace) -> Iterator[str]:
    from flowcontrol.link.describing import shown

    found = _open(options).describe()
    if options.json:
        yield json.dumps(found, indent=1)
    else:
        yield from shown(found)


def _alter(options: argparse.Namespace) -> Iterator[str]:
    link, given = _open(options), _given(options)
    settings = link.alter(**given)
    for name in given:
        value = getattr(settings, name)
        yield f"{name} is {UNSET if value is None else value}"


def _given(options: argparse.Namespace) -> dict[str, object]:
    from flowcontrol.link.settings import read_setting

    given = dict[str, object]()
    for text in options.set:
        name, sign, value = text.partition("=")
        if not sign:
            raise LinkError(f"--set {text}: needs NAME=VALUE, such as detach_after_bytes=1gb")
        if name in given:
            raise LinkError(f"--set {text}: {name} is set twice: set it once")
        given[name] = read_setting(name, value)
    return given


def _remove_receiver(options: argparse.Namespace) -> Iterator[str]:
    _open(options).remove_receiver(options.name, force=options.force)
    yield f"receiver {options.name} is removed: no sender waits for it any more"


def _remove_sender(options: argparse.Namespace) -> Iterator[str]:
    link = _open(options)
    if options.finish:
        yield f"releasing what sender {options.name} has left, as its receivers read it"
    freed = link.remove_sender(options.name, finish=options.finish)
    yield f"sender {options.name} is removed: {freed} bytes are free"


def _drain(options: argparse.Namespace) -> Iterator[str]:
    from flowcontrol.link.draining import drain, undo_drain

    link = _open(options)
    if options.undo:
        undo_drain(link.storage)
        yield f"{link.storage} takes rows again: start its senders with their checkpoints"
        return
    if options.wait is not None and not 0 <= options.wait <= LONGEST_S:
        raise LinkError(f"--wait {options.wait:g}: needs seconds, from 0 to {LONGEST_S:.0f}")
    yield from drain(link.storage, wait_s=options.wait)
    yield f"{link.storage} is drained: receivers have read all rows; stop their queries"
    for one in link.describe()["senders"]:
        name = one["name"]
        yield f"start sender {name} with its checkpoint and link.bypass({name!r}, function)"


def _move(options: argparse.Namespace) -> Iterator[str]:
    from flowcontrol.ledger.storage import Storage
    from flowcontrol.link.folder import move

    copied = move(Storage(options.path), Storage(options.target), force=options.force)
    yield f"the link is in {options.target} now ({copied} bytes copied): name that in its queries"


def _delete(options: argparse.Namespace) -> Iterator[str]:
    from flowcontrol.ledger.storage import Storage
    from flowcontrol.link.folder import delete

    delete(Storage(options.path), force=options.force)
    yield f"the link {options.path} is deleted"


def run(options: argparse.Namespace) -> int:
    """Do the chosen action; return the exit status."""
    try:
        for line in options.act(options):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    except KeyboardInterrupt:
        note(AGAIN)
        return INTERRUPTED
    return 0
