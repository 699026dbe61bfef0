"""The two tables of a link, made by whichever side comes first."""

from __future__ import annotations

from flowcontrol.ledger.link_files import create_log
from flowcontrol.ledger.link_ledger import create_ledger
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.settings import LinkSettings, schema_of

EXCHANGE, LEDGER = "exchange", "ledger"
"""Folders below the link's."""


def make_tables(storage: Storage, settings: LinkSettings) -> None:
    """Create the exchange log and the ledger unless they are there."""
    from pyspark.sql.pandas.types import to_arrow_schema

    create_log(storage.child(EXCHANGE), to_arrow_schema(schema_of(settings.schema), timezone="UTC"))
    create_ledger(storage.child(LEDGER))
