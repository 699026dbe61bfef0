"""Create a link and its tables, or open an existing one; a path alone never creates one."""

import uuid
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_ledger import create_ledger
from flowcontrol.ledger.link_log import create_log
from flowcontrol.ledger.storage import Storage, writing
from flowcontrol.link.event_time import check_event_column
from flowcontrol.link.schema import agree_columns, check_columns, types_of
from flowcontrol.link.settings import (
    ALTERABLE,
    DEFAULTS,
    FILE,
    LinkSettings,
    check,
    check_event_time,
    check_pool,
    read_made,
    read_settings,
    schema_of,
)

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
            check_pool(str(storage), made)
            check_event_time(str(storage), made)
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
