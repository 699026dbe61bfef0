"""Change a link that is in use: remove a receiver, alter a setting.

Both are commits to the ledger, which every member follows.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from flowcontrol.errors import FencedError, LinkError
from flowcontrol.ledger.link_ledger import LinkLedger, LinkLedgerView, create_ledger
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.members import receiver_id, receivers_of, remove_member
from flowcontrol.link.settings import ALTERABLE, DEFAULTS, SETTINGS, LinkSettings, altered, check

FIXED = {
    "key": "rows of one key would be in two channels at once, and out of order",
    "channels": "messages are numbered by channel",
    "buffer_bytes": "messages of that size are on their way (more floating_buffers hold more)",
    "schema": "senders bring the columns: Link(..., evolve_schema=True) lets one add some",
}


def alter(storage: Storage, settings: LinkSettings, given: Mapping[str, Any]) -> LinkSettings:
    """Change settings of a link; running senders follow at once.

    Parameters
    ----------
    storage : Storage
        The link's folder.
    settings : LinkSettings
        As the link was made.
    given : mapping of str to object
        New values of some of :data:`ALTERABLE`; None unsets one.

    Raises
    ------
    LinkError
        If a setting is unknown, cannot change, or is out of range; nothing is changed then.
    """
    wrong = [_why_not(name) for name in given if name not in ALTERABLE]
    if wrong or not given:
        wrong = wrong or [f"say what to change: {', '.join(ALTERABLE)}"]
        raise LinkError(f"the link {storage} is not altered: {'; '.join(wrong)}")
    checked = check(str(storage), given)
    for name in checked:
        if checked[name] is None and DEFAULTS[name] is not None:
            checked[name] = DEFAULTS[name]
    create_ledger(storage.child("ledger"))
    refused = (
        f"the link {storage} is not altered: another process is altering it; check its settings "
        "and try again"
    )
    with _claimed(storage, SETTINGS, refused) as ledger:
        current = asdict(altered(settings, ledger))
        state = {name: current[name] for name in ALTERABLE} | checked
        ledger.commit([], state)
        return altered(settings, ledger)


@contextmanager
def _claimed(storage: Storage, member: str, refused: str) -> Iterator[LinkLedger]:
    """Write the ledger as a member; refuse if another process takes its place meanwhile."""
    ledger = LinkLedger(storage.child("ledger"), member)
    try:
        ledger.claim()
        yield ledger
    except FencedError as error:
        raise LinkError(refused) from error
    finally:
        ledger.close()


def _why_not(name: str) -> str:
    if name not in FIXED:
        return f"{name} is no setting: {', '.join(ALTERABLE)} can be altered"
    if name == "schema":
        return f"schema is not altered here: {FIXED[name]}"
    return (
        f"{name} cannot change once a link is made: {FIXED[name]}. Make a link in another folder, "
        "let the receivers read this one to its end, and start sender and receivers on the new one"
    )


def remove_receiver(storage: Storage, group: str) -> list[str]:
    """Remove a receiver with all of its queries: no sender waits for it any more.

    Parameters
    ----------
    storage : Storage
        The link's folder.
    group : str
        The receiver's name.

    Returns
    -------
    list of str
        The application ids that were removed.

    Raises
    ------
    LinkError
        If there is no such receiver; the known ones are named. If it starts at this moment.
    """
    view = LinkLedgerView(storage.child("ledger"))
    if view.storage.exists("_delta_log"):
        view.refresh()
    known = receivers_of(view)
    members = [receiver_id(one.group, one.channels) for one in known if one.group == group]
    if not members:
        names = ", ".join(sorted({one.group for one in known})) or "none"
        raise LinkError(f"the link {storage} has no receiver {group!r}: its receivers are: {names}")
    refused = (
        f"the link {storage}: receiver {group!r} is starting: stop its queries and remove it again"
    )
    for member in members:
        with _claimed(storage, member, refused) as ledger:
            remove_member(ledger)
    return members
