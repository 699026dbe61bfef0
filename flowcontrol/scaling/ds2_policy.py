"""DS2's manager: when it decides, of how many passes, and what is worth a new deployment.

Source: strymon-system/ds2, ``controller/src/bin/manager.rs`` and the last step of
``controller/src/policy/scaling.rs``.
"""

from collections.abc import Iterable, Mapping
from math import ceil, inf

from flowcontrol.scaling.true_rates import ROUNDING, Rates, ds2


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
