"""Many states in a page: figures that do not change stand once, the rest is deflated.

A state is a tree of mappings, whose leaves are its **figures**: numbers, texts, lists. All states
of a job have the same figures, so a state is what each one is, and a round is which it changes.
"""

import base64
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flowcontrol.stepview.shown import Shown


def leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[list[str], Any]]:
    """Yield the figures of a state with the keys that lead to them, in their order."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*path, key))
        else:
            yield [*path, key], value


def changes(states: Sequence[Shown]) -> dict[str, Any]:
    """Return states as a first one and what each round changes.

    Returns
    -------
    dict
        ``paths``, the keys that lead to each figure; ``first``, what these are in the first state;
        and ``rounds``, one list a further state: number of a figure, its value, and so on.

    Raises
    ------
    ValueError
        If a state has other figures than the first one.
    """
    paths = [path for path, _ in leaves(states[0])]
    now = [value for _, value in leaves(states[0])]
    first, rounds = list(now), []
    for state in states[1:]:
        found: list[Any] = []
        values = list(leaves(state))
        if [path for path, _ in values] != paths:
            raise ValueError(f"round {state['round']} has other figures than the first one")
        for number, (_, value) in enumerate(values):
            if value != now[number]:
                found += [number, value]
                now[number] = value
        rounds.append(found)
    return {"paths": paths, "first": first, "rounds": rounds}


def packed(value: Any) -> str:
    """Return JSON, deflated (RFC 1950), as base64: what a browser's DecompressionStream reads."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(text: str) -> Any:
    """Return what :func:`packed` has packed."""
    return json.loads(zlib.decompress(base64.b64decode(text)))
