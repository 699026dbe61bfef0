"""Checks across the stages and edges of a job: shape, roles, chains, sizes, placement."""

import graphlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from flowcontrol.errors import Problem
from flowcontrol.scenario.fields import is_stated
from flowcontrol.scenario.models import PIPELINED, Cluster, Edge, Scenario
from flowcontrol.scenario.problems import known
from flowcontrol.scenario.refusals import faults
from flowcontrol.scenario.stage_models import Stage

DEFAULT_RECORD_BYTES: Final = 1024
"""Default size of a source's records, bytes: 32 records in a default buffer."""

Stages = Sequence[tuple[int, Stage]]
"""Stages as read, with their positions in the file."""


def check_stage_names(names: Sequence[tuple[int, str]], problems: list[Problem]) -> None:
    """Refuse stages whose folders would be the same on a case-insensitive file system."""
    seen: dict[str, int] = {}
    for index, name in names:
        first = seen.setdefault(name.lower(), index)
        if first != index:
            text = (
                f"{name!r} is also the name of stages[{first}]: folders are named after stages, "
                "so give each a name that differs in more than upper and lower case"
            )
            problems.append(Problem(f"stages[{index}].name", text))


Links = Sequence[tuple[int, str, str]]
"""Position of an edge in the file, its sender and its receiver."""


def check_edges(
    links: Links, names: Sequence[str], *, is_whole: bool, problems: list[Problem]
) -> None:
    """Refuse edges to nowhere, edges drawn twice, stages without edges, and cycles.

    - ``names``: names of all stages, in the order of the file; empty for a stage without one.
    - ``is_whole``: no edge is left out of ``links``; otherwise no stage is called lonely.
    - ``problems``: grows by everything that is wrong.
    """
    nowhere = list(_edges_to_nowhere(links, names)) if names and all(names) else []
    problems.extend(nowhere)
    problems.extend(_edges_in_one_folder(links))
    if is_whole and links and not nowhere:
        problems.extend(_lonely_stages(links, names))
    cycle = find_cycle((sender, receiver) for _, sender, receiver in links)
    if cycle:
        text = (
            f"they form a cycle, {' -> '.join(cycle)}, but a job flows from sources to sinks: "
            "remove one of these edges"
        )
        problems.append(Problem("edges", text))


def _edges_to_nowhere(links: Links, names: Sequence[str]) -> Iterable[Problem]:
    for index, sender, receiver in links:
        for key, name in (("from", sender), ("to", receiver)):
            if name not in names:
                yield Problem(f"edges[{index}].{key}", known(name, names, "stage"))


def _edges_in_one_folder(links: Links) -> Iterable[Problem]:
    """Edges between the same stages, or whose link folders would be one."""
    seen: dict[str, tuple[int, str, str]] = {}
    for link in links:
        index, sender, receiver = link
        first = seen.setdefault(f"{sender}-{receiver}".lower(), link)
        if first is link:
            continue
        if first[1:] == link[1:]:
            text = f"goes from {sender!r} to {receiver!r}, like edges[{first[0]}]: keep one of them"
        else:
            text = (
                f"its folder '{sender}-{receiver}' is also that of edges[{first[0]}]: "
                "rename one of the stages"
            )
        yield Problem(f"edges[{index}]", text)


def _lonely_stages(links: Links, names: Sequence[str]) -> Iterable[Problem]:
    linked = {name for _, *ends in links for name in ends}
    for index, name in enumerate(names):
        if name and name not in linked:
            text = f"{name!r} has no edge: add one, or remove the stage"
            yield Problem(f"stages[{index}]", text)


def _sorter(links: Iterable[tuple[str, str]]) -> graphlib.TopologicalSorter[str]:
    sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter()
    for sender, receiver in links:
        sorter.add(receiver, sender)
    return sorter


def find_cycle(links: Iterable[tuple[str, str]]) -> list[str]:
    """Return the stages of one cycle, the first one repeated at the end; empty without one."""
    try:
        _sorter(links).prepare()
    except graphlib.CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def in_order(links: Iterable[tuple[str, str]]) -> list[str]:
    """Return the stages of an acyclic job, senders before receivers."""
    return list(_sorter(links).static_order())


def divide_totals(stages: Stages, edges: Sequence[Edge]) -> list[tuple[int, Stage]]:
    """Return the stages with their totals divided evenly among their subtasks.

    ``total_rate`` becomes ``emit_rate`` of a source and ``service_rate`` of another stage,
    ``total_arrival_rate`` becomes ``arrival_rate``, unless one of these is stated too, which is a
    contradiction of the stage.
    """
    receivers = {edge.receiver for edge in edges}
    divided = []
    for index, stage in stages:
        whole = stage
        if stage.total_rate is not None and not (stage.emit_rate or stage.service_rate):
            key = "service_rate" if stage.name in receivers else "emit_rate"
            rates = stage.total_rate.divided(stage.parallelism)
            whole = whole.model_copy(update={key: rates})
        if stage.total_arrival_rate is not None and stage.arrival_rate is None:
            rates = stage.total_arrival_rate.divided(stage.parallelism)
            whole = whole.model_copy(update={"arrival_rate": rates})
        divided.append((index, whole))
    return divided


def check_roles(stages: Stages, edges: Sequence[Edge], problems: list[Problem]) -> None:
    """Refuse keys that do not fit a stage's role, and sources without a rate.

    ``problems``: grows by everything that is wrong.
    """
    senders = {edge.sender for edge in edges}
    receivers = {edge.receiver for edge in edges}
    for index, stage in stages:
        is_total = stage.total_arrival_rate is not None
        facts = {
            "is_without_rate": stage.emit_rate is None,
            "is_cpu_without_rate": stage.cpu is not None and stage.service_rate is None,
            "arrival_key": "total_arrival_rate" if is_total else "arrival_rate",
            "is_guaranteed": "guarantee" in stage.model_fields_set,
        }
        roles = ["inner stages" if stage.name in receivers else "sources"]
        roles.append("senders" if stage.name in senders else "sinks")
        found = [fault for role in roles for fault in faults(role, stage, **facts)]
        problems.extend(Problem(f"stages[{index}].{key}", text) for key, text in found)


def resolve_chains(
    stages: Stages, edges: Sequence[tuple[int, Edge]], problems: list[Problem]
) -> dict[str, str]:
    """Return which stages run in the tasks of which others.

    ``StreamingJobGraphGenerator.isChainable``: one input, a forward partitioner, equal
    parallelism, one slot-sharing group. There are no chaining strategies: ``chain: true`` decides.

    ``problems``: grows by every edge that is chained and must not be.

    By chained stage, the stage that it is chained to; edges that are refused left out.
    """
    specs = {stage.name: stage for _, stage in stages}
    onto = {}
    for index, edge in edges:
        if not edge.chain:
            continue
        senders = [other.sender for _, other in edges if other.receiver == edge.receiver]
        found = list(_chain_faults(edge, specs[edge.sender], specs[edge.receiver], senders))
        problems.extend(Problem(f"edges[{index}].{key}", text) for key, text in found)
        if not found and specs[edge.sender].parallelism == specs[edge.receiver].parallelism:
            onto[edge.receiver] = edge.sender
    return onto


def _chain_faults(
    edge: Edge, sender: Stage, receiver: Stage, senders: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the reasons against chaining two stages.

    The parallelism of stated forward edges is checked for all edges, not here.
    """
    is_partitioned = is_stated(edge, "partitioner")
    return faults(
        "chained edges",
        edge,
        sends=sender,
        receives=receiver,
        inputs=len(senders),
        senders=", ".join(senders),
        is_elsewhere=is_partitioned and edge.partitioner != "forward",
        is_uneven=not is_partitioned and sender.parallelism != receiver.parallelism,
    )


def resolve_record_bytes(
    stages: Stages, edges: Sequence[Edge], problems: list[Problem]
) -> Mapping[str, int]:
    """Return the record size of each stage of an acyclic job, in bytes.

    A stage's own size counts; else that of what it reads; else, of a source, the default. A
    sink sends nothing, so its inputs may differ; the largest of them counts.
    """
    senders = {edge.sender for edge in edges}
    specs = {stage.name: (index, stage) for index, stage in stages}
    sizes: dict[str, int] = {}
    for name in in_order((edge.sender, edge.receiver) for edge in edges):
        index, stage = specs[name]
        inputs = {edge.sender: sizes[edge.sender] for edge in edges if edge.receiver == name}
        found = set(inputs.values())
        if not is_stated(stage, "record_bytes") and len(found) > 1 and name in senders:
            listed = ", ".join(f"{size} from {sender!r}" for sender, size in inputs.items())
            text = f"is missing, and its inputs differ ({listed} bytes): state the size it sends"
            problems.append(Problem(f"stages[{index}].record_bytes", text))
        sizes[name] = stage.record_bytes or max(found, default=DEFAULT_RECORD_BYTES)
    return sizes


def place_subtasks(
    stages: Stages, cluster: Cluster, onto: Mapping[str, str], problems: list[Problem]
) -> dict[str, tuple[int, ...]]:
    """Return the task manager of each subtask, by stage.

    Subtask k, counted over all stages in the order of the file, goes to task manager
    k mod task_managers unless its stage has a placement. A chained subtask is not a task of its
    own: it runs where the one does that it is chained to, and is not counted.

    ``problems``: grows by everything that is wrong.

    Returns the task manager of each subtask.
    """
    specs = {stage.name: (index, stage) for index, stage in stages}
    placed: dict[str, tuple[int, ...]] = {}
    first = 0
    for index, stage in stages:
        if is_stated(stage, "placement"):
            placed[stage.name] = stage.placement
        elif stage.name not in onto:
            numbers = range(first, first + stage.parallelism)
            placed[stage.name] = tuple(k % cluster.task_managers for k in numbers)
        if stage.name not in onto:
            first += stage.parallelism
        if stage.name in placed:
            _check_placement(f"stages[{index}]", stage, placed[stage.name], cluster, problems)
    for name, sender in onto.items():
        index, stage = specs[name]
        theirs = _follow(sender, onto, placed)
        if not is_stated(stage, "placement"):
            placed[name] = theirs
        elif stage.placement != theirs and len(stage.placement) == len(theirs):
            text = (
                f"{list(stage.placement)} is not {list(theirs)}, the placement of {sender!r}, to "
                "which the stage is chained: remove it"
            )
            problems.append(Problem(f"stages[{index}].placement", text))
    return placed


def _follow(
    name: str, onto: Mapping[str, str], placed: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...]:
    """Return the placement of the nearest stage up the chain that has one."""
    while name not in placed:
        name = onto[name]
    return placed[name]


def _check_placement(
    place: str, stage: Stage, placement: tuple[int, ...], cluster: Cluster, problems: list[Problem]
) -> None:
    if len(placement) != stage.parallelism:
        text = f"{len(placement)} for {stage.parallelism} subtasks: write a task manager for each"
        problems.append(Problem(f"{place}.placement", text))
        return
    for k, manager in enumerate(placement):
        if manager >= cluster.task_managers:
            text = f"{manager} is not a task manager: there are {cluster.task_managers}, from 0"
            problems.append(Problem(f"{place}.placement[{k}]", text))
    most = max(Counter(placement).values())
    if cluster.slots is not None and most > cluster.slots:
        text = (
            f"{most} subtasks of {stage.name!r} on one task manager, which has {cluster.slots} "
            "slots for one each: raise cluster.slots or cluster.task_managers"
        )
        problems.append(Problem(f"{place}.placement", text))


def regions_of(scenario: Scenario) -> dict[str, int]:
    """Return the number of the pipelined region of each stage.

    Flink's ``SchedulingPipelinedRegion``, for whole stages.

    Two stages have the same number if pipelined edges, in either direction, join them; a
    number is the place of the region's first stage in the scenario.
    """
    number = {stage.name: place for place, stage in enumerate(scenario.stages)}
    joined = [edge for edge in scenario.edges if edge.chain or edge.partition_type in PIPELINED]
    for _ in scenario.stages:
        for edge in joined:
            least = min(number[edge.sender], number[edge.receiver])
            number[edge.sender] = number[edge.receiver] = least
    return number


def is_finite(stage: Stage) -> bool:
    """Tell whether a source ends: it replays rows, or all its schedules end in a rate of 0.

    Of a source that reads a log those of the arrivals count.
    """
    if stage.input is not None:
        return True
    schedules = stage.arrival_rate or stage.emit_rate or ()
    return all(schedule.phases[-1].rate == 0 for schedule in schedules)
