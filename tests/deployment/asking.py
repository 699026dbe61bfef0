"""Graphs written as lines, and questions about them: what the tables of this folder are made of.

``a*2/8 never`` is an operator of 2 subtasks and 8 key groups; words behind it are its kind, its
chaining strategy or ``in G``, its slot sharing group. ``a -> b hash`` is an edge; words behind it
are its partitioner, its type of result, or a digit, its input. ``set KEY VALUE`` is an option.
``question = answer`` is a step; a subtask is written as its vertex's head and its index, ``a1``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from flowcontrol.deployment import (
    assign_slots,
    execution_graph,
    job_graph,
    slot_sharing,
    stream_graph,
)
from flowcontrol.graphs.stream import CHAINING, KINDS, PARTITION_TYPES, PARTITIONERS

SUBTASK = re.compile(r"([a-zA-Z]+)(\d+)")


def scenario(text: str) -> dict[str, Any]:
    """Return the scenario of some lines."""
    found: dict[str, Any] = {"operators": [], "edges": [], "options": {}}
    for line in filter(None, map(str.strip, text.splitlines())):
        words = line.split()
        if words[0] == "set":
            found["options"][words[1]] = words[2]
        elif "->" in words:
            found["edges"].append(edge(words[0], words[2], words[3:]))
        else:
            found["operators"].append(operator(words))
    return found


def edge(sender: str, receiver: str, words: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"from": sender, "to": receiver}
    for word in words:
        key = "partitioner" if word in PARTITIONERS else "partition_type"
        assert word in PARTITIONERS or word in PARTITION_TYPES or word.isdecimal()
        made |= {"input": int(word)} if word.isdecimal() else {key: word}
    return made


def operator(words: list[str]) -> dict[str, Any]:
    name, _, sizes = words[0].partition("*")
    made: dict[str, Any] = {"name": name}
    if sizes:
        count, _, most = sizes.partition("/")
        made |= {"parallelism": int(count)} | ({"max_parallelism": int(most)} if most else {})
    rest = iter(words[1:])
    for word in rest:
        if word in ("in", "uid"):
            made["slot_group" if word == "in" else "uid"] = next(rest)
        else:
            assert word in KINDS or word in CHAINING
            made["kind" if word in KINDS else "chaining"] = word
    return made


class Asked:
    """The graphs of a scenario, made when a question needs them."""

    def __init__(self, text: str) -> None:
        self.stream = stream_graph(scenario(text))

    @property
    def job(self) -> Any:
        return job_graph(self.stream)

    @property
    def execution(self) -> Any:
        return execution_graph(self.job)

    def answer(self, question: str) -> str:
        """Return the answer to a question, as text."""
        word, *arguments = question.split()
        answer: Callable[..., str] = getattr(self, f"ask_{word}")
        return answer(*arguments)

    def short(self, task: tuple[str, int]) -> str:
        return f"{self.job.vertex(task[0]).operators[0]}{task[1]}"

    def subtask(self, text: str) -> tuple[str, int]:
        found = SUBTASK.fullmatch(text)
        assert found is not None
        return self.job.vertex(found[1]).name, int(found[2])

    def tasks(self, groups: Any) -> str:
        return " | ".join(" ".join(map(self.short, group)) for group in groups)

    def ask_names(self) -> str:
        return " | ".join(node.operator_name for node in self.stream.nodes)

    def ask_partitioners(self) -> str:
        return " ".join(edge.partitioner for edge in self.stream.edges)

    def ask_unaligned(self) -> str:
        return " ".join("yes" if edge.supports_unaligned else "no" for edge in self.stream.edges)

    def ask_groups(self) -> str:
        return " ".join(node.slot_group for node in self.stream.nodes)

    def ask_vertices(self) -> str:
        return " | ".join(vertex.name for vertex in self.job.vertices)

    def ask_operators(self, name: str) -> str:
        return " ".join(self.job.vertex(name).operators)

    def ask_why(self, sender: str, receiver: str) -> str:
        refusal = self.job.why_not_chained(sender, receiver)
        return "chained" if refusal is None else str(refusal[0])

    def ask_text(self, sender: str, receiver: str) -> str:
        return str(self.job.why_not_chained(sender, receiver)[1])

    def ask_sizes(self, name: str) -> str:
        vertex = self.job.vertex(name)
        return f"{vertex.parallelism}/{vertex.max_parallelism or '-'}"

    def ask_max(self, name: str) -> str:
        vertex = self.execution.vertex(name)
        return f"{vertex.max_parallelism} {'fixed' if vertex.is_max_fixed else 'default'}"

    def ask_edges(self) -> str:
        return " | ".join(f"{edge.pattern} {edge.ship} {edge.exchange}" for edge in self.job.edges)

    def ask_ends(self) -> str:
        return " | ".join(f"{edge.sender}>{edge.receiver}" for edge in self.job.edges)

    def ask_slots(self) -> str:
        return " | ".join(f"{name} {n}" for name, n in self.job.slots_required().items())

    def ask_results(self) -> str:
        return " | ".join(
            f"{self.job.vertex(one.producer).operators[0]}*{one.partitions} "
            f"{' '.join(map(str, one.consumers))}"
            for one in self.execution.results
        )

    def ask_channels(self, name: str) -> str:
        graph = self.execution
        return " | ".join(
            " ".join(f"{sender}.{place}" for sender, place in graph.channels(name, subtask))
            for subtask in range(graph.vertex(name).parallelism)
        )

    def ask_subpartitions(self, number: str) -> str:
        graph = self.execution
        edge = graph.edges[int(number)]
        senders = graph.vertex(edge.source).parallelism
        return " ".join(str(graph.subpartitions(edge, sender)) for sender in range(senders))

    def ask_regions(self) -> str:
        order = self.execution.subtasks
        return self.tasks([t for t in order if t in region] for region in self.execution.regions())

    def ask_restart(self, failed: str, *lost: str) -> str:
        found = self.execution.restart_set(self.subtask(failed), map(self.subtask, lost))
        return self.tasks([[task for task in self.execution.subtasks if task in found]])

    def ask_share(self, mode: str) -> str:
        return self.tasks(slot_sharing(self.execution, mode))

    def ask_assign(self, mode: str, managers: str, slots: str, sharing: str = "local") -> str:
        """Return task manager and slot of each shared slot."""
        groups = slot_sharing(self.execution, sharing)
        placed = assign_slots(groups, int(managers), int(slots), mode)
        assert [task for group in groups for task in group] == list(placed)
        assert all(len({placed[task] for task in group}) == 1 for group in groups)
        return " ".join("{}.{}".format(*placed[group[0]]) for group in groups)
