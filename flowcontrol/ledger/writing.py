"""What is said when a file of a link cannot be written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from flowcontrol.errors import LinkError

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@contextmanager
def writing(place: object, what: str) -> Iterator[None]:
    """Say where and what, if a block cannot write a file.

    Parameters
    ----------
    place : Storage or str
        The table.
    what : str
        What is being written.

    Raises
    ------
    LinkError
        If the block raises an ``OSError``: a full disk, a missing folder, no rights.
    """
    try:
        yield
    except OSError as error:
        # delta-rs draws a tree of causes, in colours.
        text = " ".join(_COLOURS.sub("", str(error)).replace("↳", "").split())
        raise LinkError(
            f"{place}: {what} cannot be written: {text}. Nothing of it counts and nothing that "
            "was there is lost: make room, or mend the storage, and start the query again"
        ) from error
