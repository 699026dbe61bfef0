"""Digests that show whether data is read as it was written.

A CRC-32 finds every change of up to three bits and every burst of up to 32; zlib's runs at several
GiB a second, so that no byte of a link is read unchecked.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any

from flowcontrol.errors import DamagedError
from flowcontrol.ledger.log import RESTORE, Add

SEAL = "seal"
"""Key of the digest in a file's entry in the log."""


def digest(content: Any, before: int = 0) -> int:
    """Return the CRC-32 of bytes, or of bytes that follow others."""
    return zlib.crc32(content, before)


def sealed(path: str, partition: Mapping[str, Any], stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's entry for the log with a digest of itself."""
    return {**stats, SEAL: _seal(path, partition, stats)}


def _seal(path: str, partition: Mapping[str, Any], stats: Mapping[str, Any]) -> int:
    text = json.dumps([path, dict(partition), dict(stats)], separators=(",", ":"))
    return digest(text.encode())


def check_seal(place: object, version: int, add: Add) -> dict[str, Any]:
    """Return what a commit says of a file.

    Raises DamagedError if it is not what was written.
    """
    stats = {name: value for name, value in add.stats.items() if name != SEAL}
    try:
        seal = _seal(add.path, add.partition, stats)
    except TypeError:  # a damaged checkpoint may hold anything
        seal = -1
    if add.stats.get(SEAL) != seal:
        raise DamagedError(
            f"{place}/_delta_log: what commit {version}, or its checkpoint, says of {add.path} is "
            f"not what was written: the file is damaged. {RESTORE}"
        )
    return stats


def check_file(place: object, path: str, content: Any, expected: tuple[int, int]) -> None:
    """Make sure that bytes have the size and the digest that they were written with.

    Raises DamagedError if they have not.
    """
    found = len(content), digest(content)
    if found != expected:
        raise DamagedError(
            f"{place}/{path} is damaged: it has {found[0]} bytes with the digest {found[1]:08x}, "
            f"written were {expected[0]} with {expected[1]:08x}. {RESTORE}"
        )
