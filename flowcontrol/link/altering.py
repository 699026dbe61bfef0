"""Alter settings of a link that is in use: a commit to the ledger, which every member follows."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_ledger import create_ledger
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.columns import types_of
from flowcontrol.link.event_time import check_event_column
from flowcontrol.link.members import SETTINGS
from flowcontrol.link.retiring import claimed
from flowcontrol.link.settings import (
    ALTERABLE,
    DEFAULTS,
    LinkSettings,
    altered,
    check,
    check_event_time,
    check_pool,
    schema_of,
)

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
        check_pool(str(storage), wanted)
        check_event_time(str(storage), wanted)
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
