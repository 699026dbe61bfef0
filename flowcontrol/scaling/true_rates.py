"""DS2: the parallelism of every operator from true rates, and when its manager decides."""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from math import ceil, fsum, inf, isfinite

# --- DS2: the parallelism of every operator from true rates, in one pass.
#
# Source: Kalavri et al., "Three steps is all you need" (OSDI 2018), and strymon-system/ds2,
# ``controller/src/policy/scaling.rs``.


ROUNDING = 1e-12
"""Relative error of a few operations on doubles: a need so little above a whole number is it."""

Rates = Mapping[str, Sequence[tuple[float, float]]]
"""By operator, (true processing rate, true output rate) of each instance, records/s."""


def ds2(
    topology: Iterable[tuple[str, str]],
    rates: Rates,
    source_rates: Mapping[str, float] | None = None,
    factor: float = 0.0,
) -> dict[str, tuple[float, int]]:
    """Return the instances that keep up with the sources.

    - ``rates``: True processing rate and true output rate of each instance, records/s: records over
      useful time. The processing rate of a source is not used.
    - ``source_rates``: what all instances of a source are to put out, records/s; by default their
      true output.
    - ``factor``: share of instances to add beyond the need, before it is rounded up.

    Of every operator that is not a source, senders first: the need, and the instances. The output
    to receivers follows from the need, which is not rounded. Without input both are 0. Raises
    ValueError if the topology has a cycle, an operator has no rates, a rate is not a finite number
    that is at least 0, records come to one that has no true rate, or the factor is negative.

    Examples
    --------
    >>> edges = [("source", "split"), ("split", "count")]
    >>> rates = {"source": [(0, 10)], "split": [(100, 200)], "count": [(100, 0)]}
    >>> ds2(edges, rates, {"source": 1000})
    {'split': (10.0, 10), 'count': (20.0, 20)}
    """
    if not isfinite(factor) or factor < 0:
        raise ValueError(f"factor: {factor!r} is out of range: needs a finite number, at least 0")
    edges = list(dict.fromkeys(topology))
    given = {} if source_rates is None else dict(source_rates)
    _check(edges, rates, given)
    senders: dict[str, list[str]] = {name: [] for edge in edges for name in edge}
    for sender, receiver in edges:
        senders[receiver].append(sender)
    out: dict[str, float] = {}
    found: dict[str, tuple[float, int]] = {}
    for name in _in_order(senders):
        processed = fsum(processing for processing, _ in rates[name])
        put_out = fsum(output for _, output in rates[name])
        if not senders[name]:
            out[name] = given.get(name, put_out)
            continue
        target = fsum(out[sender] for sender in senders[name])
        if target > 0 and processed == 0:
            raise ValueError(
                f"rates[{name!r}]: 0 records/s, while {target:g} records/s come to it: nothing "
                "was measured of it, so watch it for longer"
            )
        instances = len(rates[name])
        need = target / (processed / instances) if target else 0.0
        found[name] = need, ceil(need * (1 + factor) * (1 - ROUNDING))
        out[name] = put_out * need / instances
    return found


def _in_order(senders: Mapping[str, Sequence[str]]) -> list[str]:
    try:
        return list(TopologicalSorter(senders).static_order())
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise ValueError(f"topology: {circle} is a cycle: DS2 needs none") from None


def _check(edges: Sequence[tuple[str, str]], rates: Rates, given: Mapping[str, float]) -> None:
    """Refuse what is missing, or no rate."""
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    receivers = {receiver for _, receiver in edges}
    for name in names:
        if not rates.get(name):
            raise ValueError(f"rates: {name!r} has no instance: state its rates")
        for index, pair in enumerate(rates[name]):
            for kind, rate in zip(("processing", "output"), pair, strict=True):
                is_used = kind == "output" or name in receivers
                if is_used and not (isfinite(rate) and rate >= 0):
                    raise ValueError(
                        f"rates[{name!r}][{index}]: the true {kind} rate {rate!r} is out of range: "
                        "needs a finite number of records/s, at least 0"
                    )
    for name, rate in given.items():
        if name not in names or name in receivers:
            raise ValueError(f"source_rates: {name!r} is not a source of the topology")
        if not (isfinite(rate) and rate >= 0):
            raise ValueError(
                f"source_rates[{name!r}]: {rate!r} is out of range: needs a finite number of "
                "records/s, at least 0"
            )


# --- DS2's manager: when it decides, of how many passes, and what is worth a new deployment.
#
# Source: strymon-system/ds2, ``controller/src/bin/manager.rs`` and the last step of
# ``controller/src/policy/scaling.rs``.


class Ds2Policy:
    """Decides on a new parallelism, one look at a time.

    - ``ratio``: how many times as fast as they are sources should be until every operator grows by
      that.
    - ``reason``: why the last look changed something, or nothing.

    Examples
    --------
    >>> policy = Ds2Policy([("source", "map")])
    >>> policy.look({"source": [(0, 10)], "map": [(100, 0)]}, {"source": 350}, {"source": 350})
    {'map': 4}
    """

    def __init__(
        self,
        topology: Iterable[tuple[str, str]],
        factor: float = 0.0,
        ratio: float = inf,
        activation: int = 1,
    ) -> None:
        self._topology = list(topology)
        self._factor, self._ratio, self._activation = factor, ratio, activation
        self._seen: list[dict[str, int]] = []
        self.reason = ""

    def restart(self) -> None:
        """Forget the looks so far: the job runs anew."""
        self._seen.clear()

    def look(
        self, rates: Rates, targets: Mapping[str, float], observed: Mapping[str, float]
    ) -> dict[str, int]:
        """Return the instances of the operators to change; empty: nothing is worth it.

        ``rates``: True processing and output rate of each instance, records/s.

        Raises ValueError as :func:`~flowcontrol.scaling.ds2`.
        """
        found = ds2(self._topology, rates, targets, self._factor)
        now = {name: len(rates[name]) for name in found}
        wanted = {name: max(1, instances) for name, (_, instances) in found.items()}
        slow = max((_behind(targets[name], observed[name]) for name in targets), default=0.0)
        grows = any(wanted[name] > now[name] for name in wanted)
        is_overhead = not grows and slow > self._ratio
        if is_overhead:
            wanted = {name: ceil(slow * n * (1 - ROUNDING)) for name, n in wanted.items()}
        self._seen.append(wanted)
        if len(self._seen) < self._activation:
            self.reason = f"look {len(self._seen)} of {self._activation}"
            return {}
        last = self._seen[-self._activation :]
        chosen = {name: max(one[name] for one in last) for name in wanted}
        if not any(new > now[name] or new < now[name] - 1 for name, new in chosen.items()):
            self.reason = "no operator must grow, or has two instances too many"
            return {}
        needs = ", ".join(
            f"{name} needs {found[name][0]:.2f} of {now[name]}"
            for name, new in chosen.items()
            if new != now[name]
        )
        self.reason = f"{needs}; sources are slower by {slow:.2f}" if is_overhead else needs
        return {name: new for name, new in chosen.items() if new != now[name]}


def _behind(target: float, observed: float) -> float:
    """Return how many times as fast as it is a source should be."""
    return target / observed if observed > 0 else inf if target > 0 else 0.0
