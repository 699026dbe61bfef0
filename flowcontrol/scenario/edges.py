"""From edges as written to edges as meant: partitioners with the parameters each needs."""

from __future__ import annotations

from collections.abc import Mapping

from flowcontrol.errors import Problem
from flowcontrol.scenario.fields import is_stated
from flowcontrol.scenario.inputs import Replayed
from flowcontrol.scenario.models import Edge, Partitioner, Stage
from flowcontrol.scenario.problems import known


def resolve_edge(
    index: int,
    edge: Edge,
    stages: Mapping[str, Stage],
    rows: Mapping[str, Replayed | None],
    problems: list[Problem],
) -> Edge:
    """Return an edge with its partitioner and its key.

    Parameters
    ----------
    index : int
        Position of the edge.
    edge : Edge
        As written; both its stages exist.
    stages : mapping of str to Stage
        All stages.
    rows : mapping of str to (Input, columns) or None
        By stage: the real rows that it sends on; None if it sends made ones.
    problems : list of Problem
        Grows by everything that is wrong.

    Returns
    -------
    Edge
        As meant.
    """
    place = f"edges[{index}]"
    sender, receiver = stages[edge.sender], stages[edge.receiver]
    is_equal = sender.parallelism == receiver.parallelism
    partitioner: Partitioner = "forward" if is_equal else "rebalance"
    if is_stated(edge, "partitioner"):
        partitioner = edge.partitioner
    if partitioner == "forward" and not is_equal:
        text = (
            f"forward from {sender.parallelism} subtasks to {receiver.parallelism}: needs equal "
            "parallelism on both sides; set it, or use rebalance or rescale"
        )
        problems.append(Problem(f"{place}.partitioner", text))
    _check_parameters(place, edge, partitioner, problems)
    _check_weights(place, edge, receiver, problems)
    key = _key(place, edge, partitioner, sender, rows, problems)
    return edge.model_copy(update={"partitioner": partitioner, "key": key})


_PARAMETERS = {"hash": ("key_weights", "channel_weights", "key"), "custom": ("channel_weights",)}


def _check_parameters(place: str, edge: Edge, partitioner: str, problems: list[Problem]) -> None:
    """Refuse parameters that a partitioner does not take, and the lack of those it needs."""
    takes = _PARAMETERS.get(partitioner, ())
    given = [key for key in _PARAMETERS["hash"] if getattr(edge, key) is not None]
    for key in given:
        if key not in takes:
            needed = ", ".join(name for name, keys in _PARAMETERS.items() if key in keys)
            text = f"{partitioner} takes no {key}: take it out, or use the partitioner {needed}"
            problems.append(Problem(f"{place}.{key}", text))
    if partitioner == "custom" and not given:
        text = "custom needs channel_weights, a list with the share of each receiving subtask"
        problems.append(Problem(f"{place}.channel_weights", f"is missing: {text}"))
    if partitioner == "hash" and len(given) > 1:
        text = f"{' and '.join(given)} are given: hash needs exactly one of them"
        problems.append(Problem(f"{place}.{given[1]}", text))


def _check_weights(place: str, edge: Edge, receiver: Stage, problems: list[Problem]) -> None:
    """Refuse shares that are not one a receiver, or add up to nothing."""
    shares = edge.channel_weights
    if shares is not None and len(shares) != receiver.parallelism:
        text = f"{len(shares)} shares for {receiver.parallelism} subtasks of {receiver.name!r}"
        problems.append(Problem(f"{place}.channel_weights", f"{text}: write one for each"))
        shares = None
    for key, values in (
        ("channel_weights", shares),
        ("key_weights", None if edge.key_weights is None else tuple(edge.key_weights.values())),
    ):
        if values is not None and sum(values) <= 0:
            text = "their sum is 0: at least one share must be more than 0"
            problems.append(Problem(f"{place}.{key}", text))


def _key(
    place: str,
    edge: Edge,
    partitioner: str,
    sender: Stage,
    rows: Mapping[str, Replayed | None],
    problems: list[Problem],
) -> str | None:
    """Return the column that a hash edge reads; None if shares say where records go."""
    if partitioner != "hash" or edge.key_weights is not None or edge.channel_weights is not None:
        return None
    replayed = rows.get(edge.sender)
    if replayed is None and sender.input is not None:
        return None  # the input itself was refused
    if replayed is None:
        text = "exactly one of key_weights and channel_weights (a key needs real rows to read)"
        problems.append(Problem(f"{place}.key_weights", f"is missing: hash needs {text}"))
        return None
    source, columns = replayed
    key = edge.key or source.key
    if key is None:
        text = "hash of replayed rows needs a column, here or as the key of the input"
        problems.append(Problem(f"{place}.key", f"is missing: {text}"))
    elif key not in columns:
        problems.append(Problem(f"{place}.key", known(key, columns, "column")))
    return key
