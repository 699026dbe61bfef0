"""The error of a file of a link that cannot be written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from flowcontrol.errors import LinkError

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@contextmanager
def writing(place: object, what: str) -> Iterator[None]:
    """Add place and content to the error of a block that cannot write a file.

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
            f"{place}: {what} cannot be written: {text}. Nothing of it is committed and nothing "
            "is lost: free space or repair the storage, and restart the query"
        ) from error
