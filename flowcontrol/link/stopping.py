"""Whether the query that runs a sender's batch was asked to stop.

Spark answers in private classes of its own, which another version may have changed. Then the public
list of active queries is asked, and the log says so once.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from flowcontrol.link.source_batch import running_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("flowcontrol.link")
_warned: set[str] = set()
_listed: set[str] = set()


def is_stopped(rows: DataFrame, query: str) -> bool:
    """Whether the query was asked to stop while its batch runs.

    Spark Connect does not say; it ends the process instead.
    """
    try:
        found = running_query(rows, query)
        return found is None or not found.isActive()
    except Exception as error:
        if _is_connect(rows):
            return False
        text = " ".join(str(error).split())[:200]
        _warn_once(
            "private",
            f"Spark's private list of running queries cannot be read ({type(error).__name__}: "
            f"{text}): the public one of the default session is used instead",
        )
        return _has_ended(query)


def _is_connect(rows: DataFrame) -> bool:
    return ".connect." in type(rows).__module__


def _has_ended(query: str) -> bool:
    """Whether the query is no more in the public list of active queries, where it was before."""
    from pyspark.sql import SparkSession

    try:
        active = {str(found.id) for found in SparkSession.builder.getOrCreate().streams.active}
    except Exception as error:
        _warn_once(
            "public",
            f"the list of active queries cannot be read either ({type(error).__name__}): a sender "
            "that waits for buffers does not see stop(); end the process instead",
        )
        return False
    if query in active:
        _listed.add(query)
        return False
    if query not in _listed:
        _warn_once(
            "unlisted",
            f"query {query} is not in the default session's list of active queries: while it waits "
            "for buffers it does not see stop(); start it from the default session",
        )
    return query in _listed


def _warn_once(what: str, text: str) -> None:
    if what not in _warned:
        _warned.add(what)
        _log.warning("%s", text)
