"""Keys that the edges into a stage name for made records: the same name is the same key on all."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

from flowcontrol.scenario.key_distribution import KeyDistribution


class NamesKeys(Protocol):
    """What an edge says of the keys of made records."""

    @property
    def key_weights(self) -> Mapping[str, Any] | None:
        """Weight of each key by its name, if it names them so."""

    @property
    def key_distribution(self) -> KeyDistribution | None:
        """How many keys there are, and how often each comes up, if it names them so."""


def key_names(edges: Iterable[NamesKeys]) -> Sequence[str]:
    """Return the names of all keys that some edges name, by the number of the key.

    ``edges``: those into a stage; some may name no keys.

    In the order in which they are first named; the keys of a ``key_distribution`` are the decimal
    texts of their ranks. Empty: none is named.
    """
    return list(dict.fromkeys(chain.from_iterable(map(own_names, edges))))


def own_names(edge: NamesKeys) -> Iterable[str]:
    """Return the names of the keys of one edge, in its order; nothing: it names none."""
    if edge.key_distribution is not None:
        return map(str, range(1, edge.key_distribution.keys + 1))
    return () if edge.key_weights is None else edge.key_weights


def count_names(edges: Iterable[NamesKeys]) -> int:
    """Return how many keys some edges name; 0: none.

    Distributions name the same keys, so that nothing is spelled out for them alone.
    """
    named = list(edges)
    if any(edge.key_weights is not None for edge in named):
        return len(key_names(named))
    return max(
        (one.keys for edge in named if (one := edge.key_distribution) is not None), default=0
    )
