"""From a file to a scenario: read each part, then check the parts against each other.

All problems are collected. A part that is invalid by itself is left out of later checks, so that
one mistake is not reported ten times.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.scenario.fault_checks import (
    barrier_facts,
    check_failures,
    check_state,
    check_times,
    check_unaligned,
)
from flowcontrol.scenario.fields import is_stated
from flowcontrol.scenario.graph import (
    check_edges,
    check_roles,
    check_stage_names,
    divide_totals,
    find_cycle,
    place_subtasks,
    resolve_chains,
    resolve_record_bytes,
)
from flowcontrol.scenario.inputs import (
    Replayed,
    carried,
    resolve_input,
    resolve_output,
    results_of_windows,
)
from flowcontrol.scenario.jobs import read_jobs, stage_name
from flowcontrol.scenario.models import Cluster, Edge, Partitioner, Scenario, ScenarioHead
from flowcontrol.scenario.monitoring import monitoring_problems, trace_problems
from flowcontrol.scenario.operators import lower, read_operators, slots_of
from flowcontrol.scenario.options import read_options
from flowcontrol.scenario.problems import known
from flowcontrol.scenario.refusals import refused
from flowcontrol.scenario.scaling_models import scaling_problems
from flowcontrol.scenario.stage_models import Operator, Stage
from flowcontrol.scenario.system import PRESETS, read_system
from flowcontrol.scenario.time_checks import (
    check_event_time,
    check_time_model,
    check_windows,
    time_model_of,
)
from flowcontrol.scenario.translate import read_part

DEFAULT_VARIATION: Final = 1.0
"""Standard deviation / mean of lognormal times: that of exponential ones, for comparison."""

ItemT = TypeVar("ItemT", Stage, Edge)


def parse_scenario(
    mapping: Mapping[str, Any], source: str = "scenario", base: Path | str = Path()
) -> Scenario:
    """Read and check a scenario that is already a mapping.

    Checked, with every default filled in. Raises ScenarioError with everything that is wrong, each
    with the path of its key.

    Examples
    --------
    >>> scenario = parse_scenario({
    ...     "schema": 1, "name": "small", "duration_s": 10,
    ...     "stages": [{"name": "a", "emit_rate": 100}, {"name": "b", "service_rate": 50}],
    ...     "edges": [{"from": "a", "to": "b"}],
    ... })
    >>> scenario.stage("b").placement
    (1,)
    """
    found: list[Problem] = []
    problems: list[Problem] = []
    operators = read_operators(mapping, problems)
    jobs = read_jobs(operators.mapping, problems)
    parts = _Parts(jobs.mapping, found, Operator if operators.is_there else Stage)
    stages, edges = _resolve(parts, Path(base), found, jobs.groups)
    head = parts.head
    if head is not None:
        check_times(head.savepoints, head.failures, head.duration_s, problems)
        by_name = {stage.name: stage for _, stage in parts.stages}
        cluster = parts.cluster or head.cluster
        check_failures(head.failures, cluster, parts.names, by_name, problems)
        problems += check_time_model(head, mapping.get("system"), parts.stages)
        if head.scaling is not None:
            problems += scaling_problems(head.scaling, list(by_name.values()))
        if head.trace is not None:
            named = [(edge.name, edge.chain) for _, edge in parts.edges]
            problems += trace_problems(head.trace, head.duration_s, named)
        if head.monitoring is not None:
            problems += monitoring_problems(head.monitoring, head.duration_s)
        facts = barrier_facts(mapping.get("system"), parts.system, parts.options, head)
        problems += [problem for _, problem in refused("reading", facts)]
    problems += [operators.moved(jobs.moved(problem)) for problem in found]
    jobs.check(None if head is None else head.duration_s, problems)
    if problems or head is None:
        raise ScenarioError(problems, source)
    read = {
        "system": parts.system,
        "cluster": parts.cluster,
        "operators": [one.keys for _, one in parts.stages if isinstance(one, Operator)],
        "options": parts.options,
        "stages": stages,
        "edges": edges,
        "jobs": jobs.spans(),
        "time_model": parts.time_model,
    }
    return Scenario.model_validate(head.model_dump(by_alias=True, exclude=set(read)) | read)


class _Parts:
    """The valid parts of a file, each read by itself.

    - ``head``: the top of the file.
    - ``cluster``: the machines.
    - ``options``: flink's options.
    - ``system``: whose flow control.
    - ``stages``: those that could be read, with their positions in the file.
    - ``edges``: likewise.
    - ``time_model``: whose event time it is; None if the top of the file could not be read.
    - ``names``: names of all stages, also of those that could not be read; empty for one without.
    - ``links``: position, sender and receiver of all edges that name both, likewise.
    - ``is_whole``: every stage and every edge could be read.
    - ``are_links_whole``: every edge is in ``links``.
    """

    def __init__(self, raw: object, problems: list[Problem], model: type[Stage] = Stage) -> None:
        self.head = read_part(ScenarioHead, raw, (), problems)
        mapping: Mapping[Any, Any] = raw if isinstance(raw, Mapping) else {}
        options = mapping.get("options", {})
        preset = PRESETS.get(str(mapping.get("system")))
        if preset is not None and isinstance(options, Mapping):
            options = {**options, **preset.options}
        stages, edges = _list(mapping, "stages"), _list(mapping, "edges")
        self.system = read_system(mapping.get("system", "flink"), problems)
        self.options = read_options(options, problems) if isinstance(options, Mapping) else None
        self.cluster = read_part(Cluster, mapping.get("cluster", {}), (), [])
        self.stages = _read_each(model, stages, "stages", problems)
        self.edges = _read_each(Edge, edges, "edges", problems)
        if self.system.transport == "chained":
            self.edges = [(i, edge.model_copy(update={"chain": True})) for i, edge in self.edges]
        self.time_model = (
            None
            if self.head is None
            else time_model_of(self.head, mapping.get("system"), self.stages)
        )
        self.names = [stage_name(stage) for stage in stages]
        self.links = [link for i, edge in enumerate(edges) for link in _links(i, edge)]
        self.is_whole = len(self.stages) == len(stages) and len(self.edges) == len(edges)
        self.are_links_whole = len(self.links) == len(edges)

    @property
    def is_sound(self) -> bool:
        """Whether the edges make a job whose every stage can be looked at in order."""
        names = [stage.name for _, stage in self.stages]
        links = [(edge.sender, edge.receiver) for _, edge in self.edges]
        linked = {name for link in links for name in link}
        is_one_to_one = len(set(names)) == len(names) and linked == set(names)
        return self.is_whole and is_one_to_one and not find_cycle(links)


def _list(mapping: Mapping[Any, Any], key: str) -> Sequence[Any]:
    value = mapping.get(key)
    return value if isinstance(value, list | tuple) else ()


def _links(index: int, raw: object) -> Iterator[tuple[int, str, str]]:
    """Yield position and stages of an edge if it names both."""
    if isinstance(raw, Mapping):
        sender, receiver = raw.get("from"), raw.get("to")
        if isinstance(sender, str) and isinstance(receiver, str):
            yield index, sender, receiver


def _read_each(
    model: type[ItemT], raw: Sequence[Any], key: str, problems: list[Problem]
) -> list[tuple[int, ItemT]]:
    read = [(i, read_part(model, item, (key, i), problems)) for i, item in enumerate(raw)]
    return [(i, item) for i, item in read if item is not None]


def _resolve(
    parts: _Parts, base: Path, problems: list[Problem], groups: Sequence[range]
) -> tuple[tuple[Stage, ...], tuple[Edge, ...]]:
    """Check the parts against each other; return complete stages and edges.

    ``groups`` are the positions of each job's stages if the file has several jobs.
    """
    check_stage_names([(i, name) for i, name in enumerate(parts.names) if name], problems)
    check_edges(parts.links, parts.names, is_whole=parts.are_links_whole, problems=problems)
    for i, stage in parts.stages:
        problems += [Problem(f"stages[{i}].{key}", text) for key, text in stage.contradictions()]
    replayed = {stage.name: resolve_input(i, stage, base, problems) for i, stage in parts.stages}
    is_sound = parts.is_sound
    place_operators(parts, problems)
    onto = resolve_chains(parts.stages, parts.edges, problems) if is_sound else {}
    placed: dict[str, tuple[int, ...]] = {}
    if parts.is_whole and parts.cluster is not None:
        for group in groups or [range(len(parts.stages))]:
            stages = [parts.stages[index] for index in group]
            names = {stage.name for _, stage in stages}
            own = {name: to for name, to in onto.items() if {name, to} <= names}
            placed |= place_subtasks(stages, parts.cluster, own, problems)
    if not is_sound:
        return (), ()
    edges = [edge for _, edge in parts.edges]
    parts.stages = divide_totals(parts.stages, edges)
    check_roles(parts.stages, edges, problems)
    sizes = resolve_record_bytes(parts.stages, edges, problems)
    taken = results_of_windows(parts.stages, problems)
    whole = []
    for i, stage in parts.stages:
        rows = replayed[stage.name]
        filled = {
            "record_bytes": sizes[stage.name],
            "placement": placed.get(stage.name, ()),
            "input": None if rows is None else rows[0],
            "output": resolve_output(i, stage, taken, problems),
        }
        if not is_stated(stage, "service_time_cv"):
            filled["service_time_cv"] = DEFAULT_VARIATION
        read = stage.as_stage() if isinstance(stage, Operator) else stage
        whole.append(read.model_copy(update=filled))
    check_state(parts.stages, edges, problems)
    check_event_time(parts.stages, edges, replayed, problems)
    sent = carried(edges, replayed, {stage.name for _, stage in parts.stages if stage.window})
    check_windows(parts.stages, edges, sent, parts.time_model, problems)
    if parts.options is not None:
        check_unaligned(parts.options, edges, problems)
    by_name = {stage.name: stage for _, stage in parts.stages}
    return tuple(whole), tuple(
        _resolve_edge(i, edge, by_name, sent, problems) for i, edge in parts.edges
    )


def place_operators(parts: _Parts, problems: list[Problem]) -> None:
    """Chain and place operators, and give stages the slots that an option states."""
    operators = [one for _, one in parts.stages if isinstance(one, Operator)]
    if parts.cluster is None or parts.options is None or not parts.is_sound:
        return
    if not operators:
        if parts.options.task_slots is not None:
            slots = slots_of(parts.cluster, parts.options, problems)
            parts.cluster = parts.cluster.model_copy(update={"slots": slots})
        return
    lowered = lower(operators, parts.edges, parts.cluster, parts.options, problems)
    if lowered is not None:
        parts.edges, parts.cluster = lowered.edges, lowered.cluster
        parts.stages = [
            (i, one.model_copy(update={"placement": lowered.placement.get(one.name)}))
            for i, one in parts.stages
        ]


def _resolve_edge(
    index: int,
    edge: Edge,
    stages: Mapping[str, Stage],
    rows: Mapping[str, Replayed | None],
    problems: list[Problem],
) -> Edge:
    """Return an edge with its partitioner and its key.

    ``rows`` has by stage the real rows that it sends on; None if it sends made ones.
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
    if edge.input and not isinstance(sender, Operator):
        text = f"{edge.input}: a stage has one input, and only an operator has two: remove it"
        problems.append(Problem(f"{place}.input", text))
    _check_parameters(place, edge, partitioner, problems)
    _check_weights(place, edge, receiver, problems)
    key = _key(place, edge, partitioner, sender, rows, problems)
    return edge.model_copy(update={"partitioner": partitioner, "key": key})


_SHARES = ("key_weights", "key_distribution", "channel_weights")
"""Keys of a hash edge whose records have no column to go by."""
_PARAMETERS = {"hash": (*_SHARES, "key"), "custom": ("channel_weights",)}


def _check_parameters(place: str, edge: Edge, partitioner: str, problems: list[Problem]) -> None:
    """Refuse parameters that a partitioner does not take, and missing ones that it needs."""
    takes = _PARAMETERS.get(partitioner, ())
    given = [key for key in _PARAMETERS["hash"] if getattr(edge, key) is not None]
    for key in given:
        if key not in takes:
            needed = ", ".join(name for name, keys in _PARAMETERS.items() if key in keys)
            text = f"{partitioner} takes no {key}: remove it, or use the partitioner {needed}"
            problems.append(Problem(f"{place}.{key}", text))
    if partitioner == "custom" and not given:
        text = "custom needs channel_weights, a list with the share of each receiving subtask"
        problems.append(Problem(f"{place}.channel_weights", f"is missing: {text}"))
    if partitioner == "hash" and len(given) > 1:
        text = f"{' and '.join(given)} are stated: hash needs exactly one of them"
        problems.append(Problem(f"{place}.{given[1]}", text))


def _check_weights(place: str, edge: Edge, receiver: Stage, problems: list[Problem]) -> None:
    """Refuse shares whose number is not that of the receivers, or whose sum is 0."""
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
    """Return the column that a hash edge reads; None if shares route the records."""
    if partitioner != "hash" or any(getattr(edge, key) is not None for key in _SHARES):
        return None
    replayed = rows.get(edge.sender)
    if replayed is None and sender.input is not None:
        return None  # the input itself was refused
    if replayed is None:
        text = f"exactly one of {', '.join(_SHARES)} (a key needs replayed rows)"
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
