"""The order in which Flink walks the vertices of a job."""

from collections.abc import Iterable, Iterator, Mapping, Sequence


def topological(
    vertices: Sequence[str],
    consumers: Mapping[str, Sequence[str]],
    inputs: Mapping[str, Iterable[str]],
) -> list[str]:
    """Return vertices in Flink's topological order.

    ``JobGraph.getVerticesSortedTopologicallyFromSources``. Index prefixes, slot sharing and its
    order of creation follow it.

    - ``vertices``: names, in the order in which they were declared.
    - ``consumers``: who reads the results of a vertex, in the order of its results; none may be
      left out.

    Returns all vertices without inputs; then, from each vertex in the list, depth first, every
    consumer whose inputs are all listed. Raises ValueError if some are in a cycle.
    """
    missing = {name: set(inputs.get(name, ())) for name in vertices}
    found = [name for name in vertices if not missing[name]]
    listed = set(found)
    for start in found:  # grows as it goes
        path: list[Iterator[str]] = [iter(consumers.get(start, ()))]
        while path:
            name = next(path[-1], None)
            if name is None:
                path.pop()
            elif name not in listed and missing[name] <= listed:
                listed.add(name)
                found.append(name)
                path.append(iter(consumers.get(name, ())))
    if len(found) < len(vertices):
        left = ", ".join(repr(name) for name in vertices if name not in listed)
        raise ValueError(
            f"{left}: in a cycle, or behind one: a job flows from sources to sinks; take one of "
            "the edges out"
        )
    return found
