"""The folder of a link: create it, open it, move it, delete it; a path alone never creates one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from flowcontrol.errors import LinkError
from flowcontrol.ledger.commit import Writer
from flowcontrol.ledger.link_ledger import LinkLedger, LinkLedgerView, create_ledger
from flowcontrol.ledger.link_log import create_log
from flowcontrol.ledger.log import digest
from flowcontrol.ledger.storage import Storage, writing
from flowcontrol.link.event_time import check_event_column
from flowcontrol.link.schema import agree_columns, check_columns, types_of
from flowcontrol.link.settings import (
    ALTERABLE,
    DEFAULTS,
    DELETING,
    FILE,
    MOVED,
    MOVING,
    LinkSettings,
    check,
    check_stays,
    check_whole,
    no_link,
    notice_of,
    read_made,
    read_settings,
    schema_of,
)
from flowcontrol.spark.crash_points import CrashPoint, crash_point

if TYPE_CHECKING:
    from flowcontrol.link.monitoring.figures import LinkSnapshot


# --- Create a link and its tables, or open an existing one; a path alone never creates one.


ATTEMPTS = 10
"""Attempts to read a link that others create or change at the same moment."""


def find(
    storage: Storage, given: Mapping[str, Any], schema: str, *, evolve: bool = False
) -> LinkSettings | None:
    """Return the existing link, or create one if anything about it is given; else None.

    - ``given``: settings that were given; None for those left to the link.
    - ``schema``: spark's JSON of the rows' columns; empty if not given.
    - ``evolve``: let the link take columns that it does not have yet.

    Raises LinkError if the link has other settings or columns, or the folder holds something else.
    """
    is_stated = bool(schema) or any(value is not None for value in given.values())
    if not is_stated and read_made(storage) is None:
        check_free(storage)
        return None
    return agree(storage, given, schema, evolve=evolve)


def check_free(storage: Storage) -> None:
    """Refuse a folder that holds something other than a link.

    Raises LinkError: naming what was found.
    """
    found = sorted(name for name in storage.names() if not name.startswith(f"{FILE}."))
    if not found or FILE in found:
        return
    what = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
    if "_delta_log" in found:
        what = "a Delta table"
    elif set(found) <= {"exchange", "ledger"}:
        raise LinkError(
            f"{storage}: a link's tables are here ({what}), but its {FILE} is gone: put it back "
            "from a copy, or name another folder"
        )
    raise LinkError(
        f"{storage}: the folder is not empty and holds no link: found {what}. Nothing was written; "
        "name an empty folder, or one that does not exist yet"
    )


def agree(
    storage: Storage, given: Mapping[str, Any], schema: str, *, evolve: bool = False
) -> LinkSettings:
    """Create the link, or verify that the existing one matches.

    - ``given``: settings that were given; None for those left to the link.
    - ``schema``: spark's JSON of the rows' columns; empty if not given.
    - ``evolve``: let the link take the columns that it does not have yet.

    Raises LinkError if the existing link has other settings or columns.
    """
    said = {name: value for name, value in check(str(storage), given).items() if value is not None}
    for _ in range(ATTEMPTS):
        found = read_settings(storage)
        if schema:
            key = said.get("key") if found is None else found.key
            check_columns(str(storage), schema_of(schema), key)
            timed = said.get("event_time_column") if found is None else found.event_time_column
            check_event_column(str(storage), timed, types_of(schema_of(schema)))
        if found is None:
            check_free(storage)
            made = LinkSettings(uuid.uuid4().hex[:12], **_completed(said), schema=schema)
            check_whole(str(storage), made)
            with writing(storage, FILE):
                storage.create(FILE, made.to_json().encode())
            continue  # another process may have created it first: what is there counts
        _check_same(storage, found, said)
        if not schema:
            return found
        first = read_made(storage)
        columns = agree_columns(storage, first.schema if first else "", schema, evolve=evolve)
        return replace(found, schema=columns.schema)
    raise LinkError(f"{storage}: its settings are being written by others again and again")


def _completed(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a new link: its pool sizes itself unless its buffers are stated."""
    fixed = {"max_pool_bytes": None} if "floating_buffers" in said else {}
    return {**DEFAULTS, **fixed, **said}


def _check_same(storage: Storage, found: LinkSettings, said: Mapping[str, Any]) -> None:
    names = [field.name for field in fields(found) if field.name in said]
    other = [
        f"{name} is {getattr(found, name)!r} there, {said[name]!r} here"
        for name in names
        if getattr(found, name) != said[name]
    ]
    if other:
        raise LinkError(
            f"the link {storage} has other settings: {'; '.join(other)}. Leave them out to take "
            f"the link's, or name another folder; {', '.join(ALTERABLE)} can be changed with "
            "link.alter(...)"
        )


EXCHANGE, LEDGER = "exchange", "ledger"
"""Folders below the link's."""


def make_tables(storage: Storage, settings: LinkSettings) -> None:
    """Create the exchange log and the ledger unless they are there."""
    from flowcontrol.spark.versions import arrow_schema

    create_log(storage.child(EXCHANGE), arrow_schema(schema_of(settings.schema)))
    create_ledger(storage.child(LEDGER))


# --- Move a link to another folder, or delete it: step by step, and again after a kill.
#
# ``link.json`` says what a folder is, and is replaced whole. While a link is moved it says so in
# the old folder, and nobody opens it there; in the new one it is written last. So there are never
# two links, and the same command goes on where a kill has stopped it:
#
# 1. The old ``link.json`` is marked; 2. every member is fenced; 3. each file is copied and read
# back; 4. the new ``link.json`` is written; 5. the old one says where the link is; 6. the old files
# go.
#
# The mark stays: a query that still names the old folder would make a new link there.


# --- What retiring, moving and deleting share: who uses a link now, and how it is kept out.


ACTIVE_S = 30.0
"""A member that has committed within this time counts as running, seconds. An idle query commits
nothing, so this is courtesy; that nobody commits any more is for :func:`fence_members`."""


def figures_of(storage: Storage) -> LinkSnapshot:
    """Return the figures of a link."""
    from flowcontrol.link.monitoring.monitor import LinkMonitor

    return LinkMonitor(storage).snapshot()


def running_of(found: LinkSnapshot) -> list[str]:
    """Return what each member says that has just committed."""
    members = [(f"sender {one.name}", one.silent_s) for one in found.senders]
    members += [(f"receiver {one.name}", one.silent_s) for one in found.receivers]
    return [f"{name} committed {ago:.0f} s ago" for name, ago in members if ago < ACTIVE_S]


def unread_of(found: LinkSnapshot, *, sender: str = "", receiver: str = "") -> list[str]:
    """Return what is unread, by sender and receiver; those that are cut off do not count."""
    lost = {one.name for one in found.receivers if one.is_detached}
    sums: dict[tuple[str, str], int] = {}
    for one in found.channels:
        is_meant = sender in ("", one.sender) and receiver in ("", one.receiver)
        if is_meant and one.receiver not in lost:
            pair = one.sender, one.receiver
            sums[pair] = sums.get(pair, 0) + one.backlog_rows
    return [
        f"receiver {reader} has {rows} rows of sender {writer} to read"
        if reader
        else f"nobody has read the {rows} rows of sender {writer}"
        for (writer, reader), rows in sums.items()
        if rows
    ]


def check_not_running(storage: Storage, what: str) -> None:
    """Refuse to go on while queries use the link.

    Raises LinkError: naming those that have just committed.
    """
    running = running_of(figures_of(storage))
    if running:
        raise LinkError(
            f"the link {storage} is not {what}: {'; '.join(running)}. Stop the queries and wait "
            f"{ACTIVE_S:.0f} s, or cut them off with --force (force=True): they fail at their "
            "next commit"
        )


def fence_members(storage: Storage) -> None:
    """Take the place of every member: no process that runs now can commit any more.

    Who starts after this reads ``link.json`` behind its own claim and finds
    there what has become of the link.
    """
    ledger, exchange = storage.child("ledger"), storage.child("exchange")
    view = LinkLedgerView(ledger)
    if not view.is_there():
        return
    view.refresh()
    for member in list(view.members):
        if member.startswith(("sender/", "receiver/")):
            own = LinkLedger(ledger, member)
            own.claim()
            own.close()
        if member.startswith("sender/"):
            Writer(exchange, member).claim()


COPYING = "moving.json"
"""File of the new folder that says which link is being copied there."""


def move(storage: Storage, target: Storage, *, force: bool = False) -> int:
    """Move a link to another folder; return the bytes that were copied.

    ``storage``, ``target``: its folder, and the new one, which must be empty or not exist.

    Raises LinkError if there is no link, members run, the new folder holds something else, or the
    link is on its way to another one. Nothing is changed then.
    """
    if str(storage) == str(target) or str(target).startswith(f"{storage}/"):
        raise LinkError(f"{target}: this is the link's own folder, or lies in it: name another")
    text = _text_of(storage)
    name, value = notice_of(text) or ("", None)
    if name == MOVING and value == str(target):
        made = LinkSettings.from_json(json.loads(text)["settings"], str(storage))
    else:
        check_stays(text, str(storage))
        made = LinkSettings.from_json(text, str(storage))
        if not force:
            check_not_running(storage, "moved")
    if not _is_begun(target, made):
        if target.exists(FILE):
            raise LinkError(f"{target}: another link is there: name an empty folder, or a new one")
        check_free(target)
    with writing(target, "the link"):
        return _move(storage, target, made)


def _move(storage: Storage, target: Storage, made: LinkSettings) -> int:
    settings = made.to_json()
    _mark(storage, {MOVING: str(target), "settings": settings})
    crash_point("move", 0, CrashPoint.STEP)
    fence_members(storage)
    copied = 0
    if not target.exists(FILE):
        target.replace(COPYING, json.dumps({"link_id": made.link_id}).encode())
        crash_point("move", 1, CrashPoint.STEP)
        copied = sum(_copy(storage, target, table) for table in (EXCHANGE, LEDGER))
        target.replace(FILE, settings.encode())
        crash_point("move", 3, CrashPoint.STEP)
    target.delete(COPYING)
    _mark(storage, {MOVED: str(target)})
    crash_point("move", 4, CrashPoint.STEP)
    _empty(storage)
    return copied


def _copy(storage: Storage, target: Storage, table: str) -> int:
    """Make a table of the new folder equal to the old one's; return the bytes copied."""
    here, there, copied = storage.child(table), target.child(table), 0
    names = {name for name, _ in here.files()}
    known = {name for name, _ in there.files()}
    for name in sorted(known - names):
        there.delete(name)
    for name in sorted(names):
        content = here.read(name)
        if name in known and digest(there.read(name)) == digest(content):
            continue
        there.replace(name, content)
        if there.read(name) != content:
            raise LinkError(f"{there}/{name} is not what was written: the storage lost some of it")
        copied += len(content)
        crash_point("move", 2, CrashPoint.STEP)
    return copied


def _is_begun(target: Storage, made: LinkSettings) -> bool:
    """Whether the new folder holds what an earlier attempt has copied there."""
    for name in (FILE, COPYING):
        if target.exists(name):
            try:
                return bool(json.loads(target.read(name))["link_id"] == made.link_id)
            except (ValueError, KeyError, TypeError):
                return False
    return False


def delete(storage: Storage, *, force: bool = False) -> None:
    """Delete a link with all that it holds.

    ``force``: also if rows are unread or members run.

    Raises LinkError if there is no link; without ``force`` if rows are unread or members run.
    """
    text = _text_of(storage)
    name, _ = notice_of(text) or ("", None)
    if name == MOVING:
        check_stays(text, str(storage))
    if name == "":
        LinkSettings.from_json(text, str(storage))
        if not force:
            check_not_running(storage, "deleted")
            _check_read(storage)
        _mark(storage, {DELETING: True})
        crash_point("delete", 0, CrashPoint.STEP)
        try:
            fence_members(storage)
        except LinkError:
            if not force:
                raise
    crash_point("delete", 1, CrashPoint.STEP)
    _empty(storage)
    crash_point("delete", 2, CrashPoint.STEP)
    storage.delete(FILE)
    storage.remove_empty()


def _check_read(storage: Storage) -> None:
    unread = unread_of(figures_of(storage))
    if unread:
        raise LinkError(
            f"the link {storage} is not deleted: {'; '.join(unread)}. Let the receivers read them, "
            "or lose them with --force (force=True)"
        )


def _text_of(storage: Storage) -> bytes:
    try:
        return storage.read(FILE)
    except FileNotFoundError:
        read_made(storage)
        raise no_link(storage) from None
    except NotADirectoryError:
        read_made(storage)  # says so
        raise


def _mark(storage: Storage, content: dict[str, object]) -> None:
    with writing(storage, FILE):
        storage.replace(FILE, json.dumps(content, indent=1).encode())


def _empty(storage: Storage) -> None:
    """Delete the two tables."""
    for name in (EXCHANGE, LEDGER):
        table = storage.child(name)
        for file, _ in table.files():
            table.delete(file)
            crash_point("empty", 0, CrashPoint.STEP)
        table.remove_empty()
