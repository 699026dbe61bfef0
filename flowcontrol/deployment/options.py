"""Flink's options of the graphs, read from a scenario or given with a call."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from flowcontrol.graphs.jobgraph import JobGraph, build_job_graph
from flowcontrol.graphs.stream import GraphOptions, StreamGraph
from flowcontrol.scenario.option_table import ALIASES, OPTIONS
from flowcontrol.scenario.problems import nearest

_CHAINING = "pipeline.operator-chaining.enabled"
_DIFFERENT = "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"
_PREFIX = "pipeline.vertex-name-include-index-prefix"
_MODE = "execution.runtime-mode"
_MAX_PARALLELISM = "pipeline.max-parallelism"

_FIELDS: Final = {
    _CHAINING: "chaining",
    _DIFFERENT: "chains_different_max_parallelism",
    _PREFIX: "index_prefix",
    _MODE: "is_batch",
    _MAX_PARALLELISM: "max_parallelism",
}
"""By option, the field of the graphs' options that it is."""

DEFAULT_PARALLELISM: Final = "parallelism.default"


def job_graph(graph: StreamGraph, options: Mapping[str, Any] | None = None) -> JobGraph:
    """Return the job graph of a stream graph: operators that are chained are one vertex.

    - ``graph``: as :func:`~flowcontrol.deployment.stream_graph` returns it.
    - ``options``: flink's keys and values, over those of the scenario. ``pipeline.max-parallelism``
      is the scenario's: it has no effect here.

    Raises ValueError if an option is unknown or its value is; if Flink refuses the graph.
    """
    return build_job_graph(replace(graph, options=read_graph_options(options, graph.options)))


def read_graph_options(
    raw: Mapping[str, Any] | None, base: GraphOptions | None = None
) -> GraphOptions:
    """Return the options of the graphs, some of them changed; options of other things are left.

    - ``raw``: flink's keys and values; None: none.
    - ``base``: those that hold where nothing is stated; default: Flink's.

    Raises ValueError if a key or a value is unknown.
    """
    found: dict[str, Any] = {}
    for key, value in (raw or {}).items():
        name = ALIASES.get(key, key)
        if name not in OPTIONS:
            hint = nearest(str(key), [*OPTIONS, *ALIASES])
            raise ValueError(f"options: {key!r} is not an option of Flink that is known here{hint}")
        if name in _FIELDS and (name != _MAX_PARALLELISM or base is None):
            try:
                read = OPTIONS[name].read(value)
            except ValueError as error:
                raise ValueError(f"options.{key}: {error}") from error
            found[_FIELDS[name]] = read == "batch" if name == _MODE else read
    return replace(base or GraphOptions(), **found)


def default_parallelism(raw: Mapping[str, Any] | None) -> int:
    """Return the parallelism of an operator that states none.

    Raises ValueError if the option has no such value.
    """
    value = (raw or {}).get(DEFAULT_PARALLELISM, 1)
    try:
        return int(OPTIONS[DEFAULT_PARALLELISM].read(value) or 1)
    except ValueError as error:
        raise ValueError(f"options.{DEFAULT_PARALLELISM}: {error}") from error
