"""Change a link that is in use: alter its settings, retire a member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from flowcontrol.errors import FencedError, LinkError
from flowcontrol.ledger.commit import Writer
from flowcontrol.ledger.link_ledger import LinkLedger, create_ledger
from flowcontrol.ledger.link_log import SENDER, LinkLog, folder_of
from flowcontrol.ledger.log import NewFile
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.event_time import check_event_column
from flowcontrol.link.folder import figures_of, unread_of
from flowcontrol.link.members import consumed_of, receivers_of, remove_member, senders_of, view_of
from flowcontrol.link.schema import types_of
from flowcontrol.link.sender import LinkSender
from flowcontrol.link.settings import (
    ALTERABLE,
    DEFAULTS,
    SETTINGS,
    LinkSettings,
    altered,
    check,
    check_whole,
    read_settings,
    schema_of,
)

# --- Do what is left of a sender that does not come back: release its rows, so that they are read.


def finish_sender(storage: Storage, name: str) -> None:
    """Take a sender's place and release what it has left; return when all receivers have read it.

    Rows that are in the log were promised to every receiver, whatever becomes of their sender. What
    releases them is the sender's own start, here without rows to write. A kill leaves what a kill
    of the sender would: the next call, or a start of its query, goes on.

    Raises LinkError if no receiver is there to read, or the sender's query is started meanwhile.
    """
    view, settings = view_of(storage), read_settings(storage)
    if not receivers_of(view):
        raise LinkError(
            f"the link {storage}: sender {name!r} is not finished: the link has no receivers, so "
            "nobody reads what it has left. Start one, or delete the link"
        )
    assert settings is not None  # a ledger with a sender in it belongs to a link
    query = view.members[f"sender/{name}"].state["query"]
    sender = LinkSender(storage, settings, name, query, reset=True, finishes=True)
    ends = [log.end for log in sender.output.logs]
    try:
        # Nobody is waited for if receivers are removed meanwhile.
        sender.wait_until_read(
            ends, lambda: sender.is_taken_over or not receivers_of(sender.ledger)
        )
        is_taken_over = sender.is_taken_over
    except FencedError:
        is_taken_over = True
    finally:
        sender.ledger.close()
    if is_taken_over:
        raise LinkError(
            f"the link {storage}: sender {name!r} is not finished: its query was started again and "
            "does that itself. Stop it and remove it again, or leave it"
        )


# --- Retire a member of a link: nobody waits for it any more, and its space is freed.


@contextmanager
def claimed(storage: Storage, member: str, refused: str) -> Iterator[LinkLedger]:
    """Write the ledger as a member; refuse if another process takes its place meanwhile."""
    ledger = LinkLedger(storage.child("ledger"), member)
    try:
        ledger.claim()
        yield ledger
    except FencedError as error:
        raise LinkError(refused) from error
    finally:
        ledger.close()


def remove_receiver(storage: Storage, group: str, *, force: bool = False) -> list[str]:
    """Remove a receiver with all of its queries: no sender waits for it any more.

    ``force``: also if it has rows to read.

    Raises LinkError if there is no such receiver; the known ones are named. If it has rows to read,
    or starts at this moment.
    """
    known = receivers_of(view_of(storage))
    members = [one.member for one in known if one.group == group]
    if not members:
        names = ", ".join(sorted({one.group for one in known})) or "none"
        raise LinkError(f"the link {storage} has no receiver {group!r}: its receivers are: {names}")
    unread = [] if force else unread_of(figures_of(storage), receiver=group)
    if unread:
        raise LinkError(
            f"the link {storage}: receiver {group!r} is not removed: {'; '.join(unread)}. Let it "
            "read them, or leave them to the other receivers with --force (force=True)"
        )
    refused = (
        f"the link {storage}: receiver {group!r} is starting: stop its queries and remove it again"
    )
    for member in members:
        with claimed(storage, member, refused) as ledger:
            remove_member(ledger)
    return members


def remove_sender(storage: Storage, name: str, *, finish: bool = False) -> int:
    """Remove a sender all of whose rows are read; return the bytes of the files that went.

    The files of its last batch stay: by them a reader knows that nothing of the log is missing.

    Raises LinkError if there is no such sender, a receiver has rows of it to read, or it starts at
    this moment.
    """
    view = view_of(storage)
    senders = [one for one in senders_of(view) if not one.is_removed]
    own = next((one for one in senders if one.name == name), None)
    if own is None:
        names = ", ".join(one.name for one in senders) or "none"
        raise LinkError(f"the link {storage} has no sender {name!r}: its senders are: {names}")
    if finish:
        finish_sender(storage, name)
    _check_read(storage, name)
    refused = f"the link {storage}: sender {name!r} is starting: stop its query and remove it again"
    with claimed(storage, f"sender/{name}", refused) as ledger:
        exchange = storage.child("exchange")
        writer = Writer(exchange, f"sender/{name}")
        writer.claim()  # what it wrote before this is found below; after it, it writes nothing
        ledger.refresh()
        latest, log = ledger.latest, LinkLog(exchange)
        assert latest is not None
        log.refresh()
        _check_counted(storage, name, log, own.number, latest.state["written"])
        _check_read(storage, name)
        rows = [{**row, "rows": 0, "bytes": 0} for row in ledger.last_rows(ledger.member)]
        written = latest.state["written"]
        ledger.commit(rows, {**latest.state, "trimmed": written, "removed": True})
        ledger.refresh()  # a receiver that came meanwhile, and begins before the announcement
        consumed = consumed_of(receivers_of(ledger), own.number, len(written))
        if any(done != written for done in consumed.values()):
            ledger.commit(rows, latest.state)
            _check_read(storage, name)
            raise LinkError(f"the link {storage}: a receiver is starting: remove {name!r} again")
    return _free(exchange, log, own.number)


def _check_read(storage: Storage, name: str) -> None:
    unread = unread_of(figures_of(storage), sender=name)
    if unread:
        raise LinkError(
            f"the link {storage}: sender {name!r} is not removed: {'; '.join(unread)}. Stop the "
            "sender's query, let the receivers read them, and remove it then; if it does not come "
            "back to release them, add --finish (finish=True); a receiver that does not come back "
            "is removed with remove-receiver"
        )


def _check_counted(
    storage: Storage, name: str, log: LinkLog, sender: int, written: list[int]
) -> None:
    """Refuse a sender that was killed when its newest rows were in the log and not counted."""
    ends = [log.channel(sender, channel).end for channel in range(len(written))]
    if ends != written:
        raise LinkError(
            f"the link {storage}: sender {name!r} is not removed: it was stopped in mid-batch with "
            f"{sum(ends) - sum(written)} messages that no receiver has seen. Start its query once "
            "more so that they are released, and stop it between batches; or have them released "
            "in its place with --finish (finish=True)"
        )


def _free(exchange: Storage, log: LinkLog, sender: int) -> int:
    """Remove a sender's files but those of its last batch."""
    newest = {end.channel: end.end for end in log.newest(sender).ends}
    last = log.newest(sender).files
    old = [one for one in log.consumed_files(sender, newest) if one[0] not in last]
    partition = {SENDER: str(sender)}
    trimmer = Writer(exchange, f"retired/{folder_of(sender)}")
    gone = [NewFile(path, nbytes, 0, partition=partition) for path, nbytes in old]
    if gone:
        trimmer.commit(trimmer.last_batch() + 1, [], gone)
    return sum(nbytes for _, nbytes in old)


# --- Alter settings of a link that is in use: a commit to the ledger, which every member follows.


FIXED = {
    "key": "rows of one key would be in two channels at once, and out of order",
    "buffer_bytes": "messages of that size are on their way (more floating_buffers hold more)",
    "schema": "senders bring the columns: Link(..., evolve_schema=True) lets one add some",
}


def alter(storage: Storage, settings: LinkSettings, given: Mapping[str, Any]) -> LinkSettings:
    """Change settings of a link; running senders follow at once.

    ``given``: new values of some of :data:`ALTERABLE`; None unsets one.

    Raises LinkError if a setting is unknown, cannot change, or is out of range; nothing is changed
    then.
    """
    wrong = [_why_not(name) for name in given if name not in ALTERABLE]
    if wrong or not given:
        wrong = wrong or [f"say what to change: {', '.join(ALTERABLE)}"]
        raise LinkError(f"the link {storage} is not altered: {'; '.join(wrong)}")
    checked = check(str(storage), given)
    for name in checked:
        if checked[name] is None and DEFAULTS[name] is not None:
            checked[name] = DEFAULTS[name]
    _check_more(storage, settings, checked)
    create_ledger(storage.child("ledger"))
    refused = (
        f"the link {storage} is not altered: another process is altering it; check its settings "
        "and try again"
    )
    with claimed(storage, SETTINGS, refused) as ledger:
        _check_more(storage, altered(settings, ledger), checked)
        current = asdict(altered(settings, ledger))
        state = {name: current[name] for name in ALTERABLE} | checked
        wanted = replace(settings, **state)
        check_whole(str(storage), wanted)
        if settings.schema:
            types = types_of(schema_of(settings.schema))
            check_event_column(str(storage), wanted.event_time_column, types)
        ledger.commit([], state)
        return altered(settings, ledger)


def _check_more(storage: Storage, settings: LinkSettings, given: Mapping[str, Any]) -> None:
    """Refuse fewer channels: their rows would have nowhere to go.

    Raises LinkError with both numbers.
    """
    if given.get("channels", settings.channels) < settings.channels:
        raise LinkError(
            f"the link {storage} is not altered: channels is {given['channels']}, it has "
            f"{settings.channels}, and there can only be more: messages are numbered by channel. "
            "For fewer, make a link in another folder, let the receivers read this one to its "
            "end, and start sender and receivers on the new one"
        )


def _why_not(name: str) -> str:
    if name not in FIXED:
        return f"{name} is not a setting: {', '.join(ALTERABLE)} can be altered"
    if name == "schema":
        return f"schema is not altered here: {FIXED[name]}"
    return (
        f"{name} cannot change once a link is made: {FIXED[name]}. Make a link in another folder, "
        "let the receivers read this one to its end, and start sender and receivers on the new one"
    )
