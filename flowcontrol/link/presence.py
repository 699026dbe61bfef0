"""Whether a link is still where its members think it is: it may be moved or deleted meanwhile."""

import time

from flowcontrol.errors import LinkError
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.settings import read_made

EVERY_S = 5.0
"""How often a member that waits looks at ``link.json``. One that commits is fenced at once."""


class Presence:
    """Asks now and then."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._asked = time.monotonic()

    def check(self, *, at_once: bool = False) -> None:
        """Refuse a link that was moved or deleted since it was opened.

        ``at_once``: look now: a member does so behind its claim, which a move that fences all
        members before has not seen.

        Raises LinkError: saying what has become of it.
        """
        now = time.monotonic()
        if not at_once and now - self._asked < EVERY_S:
            return
        self._asked = now
        if read_made(self._storage) is None:
            raise LinkError(f"{self._storage}: the link was deleted while this query ran")
