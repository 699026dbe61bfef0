"""Weights of many keys in a line: Zipf's law, all alike, or one hot key."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import model_validator

from flowcontrol.scenario import fields as f

MAX_KEYS: Final = 10_000_000
"""Most keys: to place them takes seconds; what more there might be is spread evenly anyway."""
MAX_EXPONENT: Final = 100
"""Highest exponent: the second key has a record in 2**100."""

_TAKES: Final[dict[str, tuple[str, Any]]] = {"zipf": ("exponent", 1.1), "hot": ("share", 0.5)}
"""By kind, the parameter that it takes, with its default."""


class KeyDistribution(f.Mapping):
    """How often each of many keys comes up, in the place of a weight for each.

    The keys are the decimal texts of their ranks, ``"1"``, ``"2"``, ... up to ``keys``, hashed as
    Java strings, so that Flink's key groups route them as they route keys with stated weights.
    """

    quiet = frozenset({"exponent", "share"})

    kind: Literal["zipf", "uniform", "hot"] = f.key("KeyDistribution.kind", ...)
    keys: Annotated[int, f.Number("a whole number of keys", 1, MAX_KEYS, step=f.ONE)] = f.key(
        "KeyDistribution.keys", ...
    )
    exponent: Annotated[Fraction, f.Number("an exponent", 0, MAX_EXPONENT)] | None = f.key(
        "KeyDistribution.exponent"
    )
    share: Annotated[Fraction, f.Number("a share", 0, 1)] | None = f.key("KeyDistribution.share")

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, raw: Any) -> Any:
        """State the default of the parameter that the kind takes."""
        if not isinstance(raw, Mapping):
            return raw
        kind = raw.get("kind")
        key, default = _TAKES.get(kind, ("", None)) if isinstance(kind, str) else ("", None)
        return {**raw, key: default} if key and raw.get(key) is None else raw

    @model_validator(mode="after")
    def _check(self) -> "KeyDistribution":
        for key, text in self._contradictions():
            raise f.refuse(text, key)
        return self

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        for kind, (key, _) in _TAKES.items():
            value = getattr(self, key)
            if value is not None and kind != self.kind:
                text = f"{float(value):g}: {self.kind} takes no {key}: remove it"
                yield key, f"{text}, or write kind: {kind}"
        if self.kind == "hot" and self.keys < 2:
            text = "one hot key and the rest: needs at least 2 keys, or write kind: uniform"
            yield "keys", f"{self.keys} is too few for {text}"

    def __str__(self) -> str:
        """Return it in words: ``1,000 keys, zipf 1.1``."""
        parameter = self.exponent if self.share is None else self.share
        ending = "" if parameter is None else f" {float(parameter):g}"
        return f"{self.keys:,} key{'s' * (self.keys > 1)}, {self.kind}{ending}"


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
