"""The sentences about the bottleneck: the limit, the evidence, what to do about it, and details.

The reader need not know backpressure: stages by name, shares in per cent, times in seconds, and one
piece of advice. The first sentence takes two lines; what else there is follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from flowcontrol.analysis.panel import Panel, mean_over_time
from flowcontrol.analysis.subtasks import Limiting, edges_into
from flowcontrol.analysis.waits import SATURATED, busiest_connection, reads_in_batches
from flowcontrol.scenario import Edge, Scenario
from flowcontrol.scenario.models import SPILLING

_ALWAYS = 0.99
"""Share of the run from which a limit held "all the time"."""

_MORE_LOAD = 1.5
"""A hot subtask with this many times the records of the others is overloaded, else slow."""

NAMED = 0.005
"""Blocked share from which a stage is named as blocked."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")

_LINES, _COLUMNS = 2, 80
"""What the first sentence takes of a terminal at the most; what else there is follows it."""

_MOST_NAMED = 3
"""Stages named in a list before the rest is only counted."""


@dataclass(frozen=True)
class Evidence:
    """Figures that the sentence is made of."""

    samples: Panel  # samples, channels: the tables ``stages`` and ``channels``
    channels: Panel
    scenario: Scenario  # What was run
    limited_s: Mapping[str, float]  # Time for which each stage or edge limited (s)
    total_s: float  # Emulated time of the run (s)

    def share(
        self, stage: str, column: str, times: frozenset[float], subtasks: Sequence[int] = ()
    ) -> float:
        """Return the mean of a time share, as a ratio, over the given samples and subtasks."""
        rows = self.rows(stage, times, subtasks)
        return mean_over_time(rows, column) / 1000.0

    def rate(self, stage: str, column: str, subtasks: Sequence[int] = ()) -> float:
        """Return the mean rate of a subtask in records/s over the whole run."""
        return mean_over_time(self.rows(stage, frozenset(), subtasks), column)

    def rows(self, stage: str, times: frozenset[float], subtasks: Sequence[int] = ()) -> Panel:
        """Return the rows of a stage; an empty set of times or subtasks selects all."""
        rows = self.samples.of("stage", stage)
        if times:
            rows = rows.among("t_s", times)
        return rows.among("subtask", subtasks) if subtasks else rows


def describe(
    evidence: Evidence, name: str | None, times: frozenset[float], limiting: Limiting
) -> tuple[str, ...]:
    """Return a sentence on what limited a run, and those that go into detail.

    - ``name``: the stage or edge that limited; None if nothing limited for long.
    - ``times`` (s): samples in whose intervals it limited.
    - ``limiting``: its limiting subtasks; empty if the stage limits as a whole.

    Returns sentences, each with a full stop: the bottleneck and why, in two lines of a terminal as
    far as names allow; further advice and evidence, and what limited at other times.
    """
    if not len(evidence.samples):
        return ("No bottleneck can be named: the run ended before its first sample.",)
    if name is None:
        return _nothing_limits(evidence)
    return (
        *_in_lines(*_limits(evidence, name, times, limiting)),
        *_beside(evidence, name, times, limiting),
        *_also(evidence, name),
    )


Clause = tuple[str, str]
"""What goes on with a sentence, and the same as a sentence of its own, without its stop."""


def _in_lines(text: str, clauses: Sequence[Clause]) -> tuple[str, ...]:
    """Return a sentence with as many of its clauses as fit into its lines, and the others alone."""
    for place, (more, _) in enumerate(clauses):
        if len(wrap(f"{text}{more}.", _COLUMNS)) > _LINES:
            return f"{text}.", *(f"{alone}." for _, alone in clauses[place:])
        text += more
    return (f"{text}.",)


def _clause(text: str) -> Clause:
    """Return a clause after a semicolon."""
    return f"; {text}", f"{text[:1].upper()}{text[1:]}"


def _limits(
    evidence: Evidence, name: str, times: frozenset[float], limiting: Limiting
) -> tuple[str, Sequence[Clause]]:
    """Return what limited, and clauses with the evidence and what helps."""
    edges = {edge.name: edge for edge in evidence.scenario.edges}
    if name == throttle_name(evidence.scenario):
        return _throttle_limits(evidence, times)
    if name in edges:
        return _edge_limits(evidence, edges[name], times)
    if evidence.scenario.stage(name).reads_log:
        return _reader_limits(evidence, name, times, limiting)
    return _stage_limits(evidence, name, times, limiting)


def _stage_limits(
    evidence: Evidence, stage: str, times: frozenset[float], limiting: Limiting
) -> tuple[str, Sequence[Clause]]:
    """Return it for a stage, or for some of its subtasks."""
    subtasks = limiting.subtasks
    subject = f"{_subtasks(subtasks)} of {stage}" if subtasks else stage
    pronoun = "they were" if len(subtasks) > 1 else "it was"
    busy = percent(evidence.share(stage, "busy_ms_per_s", times, subtasks))
    held = _blocked(evidence, stage, times)
    return (
        f"Bottleneck: {subject} — {pronoun} busy {busy} of the time {_when(evidence, stage)}",
        [(f", while {held}", f"Meanwhile {held}"), _clause(_advice(evidence, stage, subtasks))],
    )


def _reader_limits(
    evidence: Evidence, stage: str, times: frozenset[float], limiting: Limiting
) -> tuple[str, Sequence[Clause]]:
    """Return it for a source that is behind its log although nothing blocks it."""
    subtasks = limiting.subtasks
    subject = f"{_subtasks(subtasks)} of {stage}" if subtasks else stage
    pronoun, its, was = ("they", "their", "were") if len(subtasks) > 1 else ("it", "its", "was")
    count = len(subtasks) or evidence.scenario.stage(stage).parallelism
    rate = evidence.share(stage, "rate_out", times, subtasks) * 1000.0 * count
    behind = f"{was} up to {_most_behind(evidence, stage, times)} behind {its} log"
    free = f"nothing after {stage} held it back"
    return (
        f"Bottleneck: {subject} — {pronoun} read as fast as {pronoun} could, "
        f"{rate:,.0f} records/s, {_when(evidence, stage)}",
        [
            (f", and {behind}", f"{pronoun.capitalize()} {behind}"),
            (f", while {free}", f"N{free[1:]}"),
            _clause(f"let {stage} read faster, or spread its log over more partitions"),
        ],
    )


def _most_behind(evidence: Evidence, stage: str, times: frozenset[float]) -> str:
    """Return the most records, and the longest time, that a source was behind its log."""
    rows = evidence.rows(stage, times)
    records = rows.per_sample(["lag_records"])["lag_records"].max()
    return f"{records:,.0f} records, {seconds(float(rows['lag_s'].max()))} s,"


def _edge_limits(
    evidence: Evidence, edge: Edge, times: frozenset[float]
) -> tuple[str, Sequence[Clause]]:
    """Return it for an exchange whose buffers cannot carry the rate."""
    blocked = percent(evidence.share(edge.sender, "backpressured_ms_per_s", times))
    busy = percent(evidence.share(edge.receiver, "busy_ms_per_s", times))
    if edge.partition_type in SPILLING:
        why = (
            f"ts result partition ({edge.partition_type}) is written to disk more slowly than it "
            "is filled"
        )
        return (
            f"Bottleneck: the disk behind {edge.name} — {edge.sender} was blocked {blocked} of "
            f"the time {_when(evidence, edge.name)}",
            [
                (f", because i{why}", f"I{why}"),
                _clause(
                    f"raise cluster.disk_bytes_per_s, spread {edge.sender} over more task "
                    "managers, or give it more network buffers"
                ),
            ],
        )
    reason, advice = _full_connection(evidence, edge, times) or _no_room(evidence.scenario)
    only = f"{edge.receiver} was busy only {busy}"
    return (
        f"Bottleneck: the exchange {edge.name} — {edge.sender} was blocked {blocked} of the time "
        f"{_when(evidence, edge.name)}",
        [(f", although {only}", f"Meanwhile {only}"), _clause(reason), _clause(advice)],
    )


def _no_room(scenario: Scenario) -> tuple[str, str]:
    """Return why an exchange limits, and the advice for it."""
    if scenario.system.counts_records:
        return (
            f"its transport, {scenario.system.transport}, lets too few records go in one round "
            "trip",
            "give system.transport larger limits, or a shorter round or latency",
        )
    return (
        "its buffers are too few for one round trip",
        "give it more buffers per channel or floating buffers, or a shorter round or latency",
    )


def _full_connection(
    evidence: Evidence, edge: Edge, times: frozenset[float]
) -> tuple[str, str] | None:
    """Return it where the connection limits; None where it does not."""
    bandwidth = evidence.scenario.cluster.bandwidth_bytes_per_s
    if bandwidth is None:
        return None
    rows = evidence.samples.among("t_s", times)
    found = busiest_connection(evidence.scenario, edge, rows)
    if found is None or found.bytes_per_s < SATURATED * float(bandwidth):
        return None
    return (
        f"the connection from task manager {found.sender} to {found.receiver} is full",
        f"it carried {found.bytes_per_s:,.0f} bytes/s of records, and its bandwidth is "
        f"{float(bandwidth):,.0f}: raise cluster.bandwidth_bytes_per_s, send less, or place "
        "sender and receiver together",
    )


def round_sentence(limited_s: float, total_s: float, scenario: Scenario, round_us: int) -> str:
    """Return why nothing can be told of a job whose run the length of its rounds limited."""
    latency_us = scenario.cluster.network_latency_us
    trip_us = 2 * max(1, -(-latency_us // round_us)) * round_us
    return (
        f"No verdict: rounds of {round_us / 1000:g} ms limited this run "
        f"{_length(limited_s, total_s)}, not its job. A round trip took {trip_us / 1000:g} ms, in "
        f"whole rounds, where the network takes {2 * latency_us / 1000:g} ms."
    )


def throttle_name(scenario: Scenario) -> str:
    """Return the name of a scenario's throttle in a sentence; no stage or edge has such a name."""
    return f"the throttle {scenario.system.throttle}"


def _throttle_limits(evidence: Evidence, times: frozenset[float]) -> tuple[str, Sequence[Clause]]:
    """Return it for sources that a throttle held back while no stage was saturated."""
    scenario, name = evidence.scenario, throttle_name(evidence.scenario)
    shares = {
        source.name: evidence.share(source.name, "backpressured_ms_per_s", times)
        for source in scenario.sources
    }
    held = max(shares, key=lambda source: shares[source])
    busy = {
        stage: evidence.share(stage, "busy_ms_per_s", times) for stage in scenario.downstream(held)
    }
    top = max(busy, key=lambda stage: busy[stage])
    only = f"{top}, the busiest stage after it, was busy only {percent(busy[top])}"
    return (
        f"Bottleneck: {name} — it held {held} back {percent(shares[held])} of the time "
        f"{_when(evidence, name)}",
        [
            (f", although {only}", f"Meanwhile {only}"),
            _clause("give system.throttle larger limits or a quicker reaction"),
        ],
    )


def _nothing_limits(evidence: Evidence) -> tuple[str, ...]:
    """Return the sentences for a run in which the sources set the pace."""
    scenario = evidence.scenario
    sources = scenario.sources
    total = sum(evidence.rate(stage.name, "rate_out") * stage.parallelism for stage in sources)
    total += _still_waiting(evidence) / evidence.total_s  # it was written, too
    names = join_words([stage.name for stage in sources])
    pace = "its own rate" if len(sources) == 1 else "their own rates"
    if any(stage.reads_log for stage in sources):
        pace = (
            "what is written to its log" if len(sources) == 1 else "what is written to their logs"
        )
    whole: frozenset[float] = frozenset()
    later = [stage.name for stage in scenario.stages if scenario.inputs(stage.name)]
    busy = {name: evidence.share(name, "busy_ms_per_s", whole) for name in later}
    text = f"No bottleneck: {names} set the pace at {pace}, {total:,.0f} records/s on average"
    clauses = list[Clause]()
    if busy:
        top = max(busy, key=lambda name: busy[name])
        most = f"the busiest stage after it, was busy {percent(busy[top])} of the time"
        clauses.append((f"; {top}, {most}", f"{top}, {most}"))
    limits = [
        f"{name} limited for {seconds(length)} of {seconds(evidence.total_s)} s"
        for name, length in evidence.limited_s.items()
    ]
    if limits:
        return *_in_lines(text, clauses), f"{join_words(limits)}."
    if reads_in_batches(scenario):
        waits = f"{names} waited only for triggers"
        return _in_lines(text, [*clauses, (f", and {waits}", waits)])
    free = ", and nothing was blocked for long", "Nothing was blocked for long"
    found = _in_lines(text, [*clauses, free])
    return found if len(found) == 1 else found[:-1]  # that nothing limits says as much


def _still_waiting(evidence: Evidence) -> float:
    """Return the records in the logs of sources at the end of a run."""
    logs = [stage.name for stage in evidence.scenario.sources if stage.reads_log]
    totals = evidence.samples.among("stage", logs).per_sample(["lag_records"])["lag_records"]
    return float(totals[-1]) if len(totals) else 0.0


def _blocked(evidence: Evidence, stage: str, times: frozenset[float]) -> str:
    """Return which stages upstream were blocked, and for what share of that time.

    Where none was, as long as queues or buffers take them, it is how many records waited.
    """
    shares = {
        name: evidence.share(name, "backpressured_ms_per_s", times)
        for name in evidence.scenario.upstream(stage)
    }
    named = [name for name, share in shares.items() if share > NAMED]
    if not named:
        return _not_held(evidence, stage, times)
    if len(named) > _MOST_NAMED:
        worst = max(named, key=lambda name: shares[name])
        figure = percent(shares[worst])
        return f"{len(named)} stages before it were blocked, {worst} the most, {figure}"
    figures = join_words([percent(shares[name]) for name in named])
    verb = "was" if len(named) == 1 else "were"
    return f"{join_words(named)} {verb} blocked {figures}"


def _not_held(evidence: Evidence, stage: str, times: frozenset[float]) -> str:
    """Return how many records waited for a stage whose senders were not blocked."""
    if evidence.scenario.system.counts_records:
        rows, column, where = evidence.rows(stage, times), "input_queue_buffers", "in its queues"
    else:
        rows = evidence.channels.among("edge", edges_into(evidence.scenario, stage))
        rows, column, where = rows.among("t_s", times), "in_flight_records", "in buffers"
    most = max(rows.per_sample([column])[column].tolist(), default=0)
    return f"nothing before it was held back, and up to {most:,.0f} records waited {where}"


def _beside(
    evidence: Evidence, name: str, times: frozenset[float], limiting: Limiting
) -> Iterator[str]:
    """Yield how busy the other subtasks were, and how many records waited for those that limit."""
    hot = limiting.subtasks
    if not hot or evidence.scenario.stage(name).reads_log:
        return
    rest = _rest(evidence, name, hot)
    busy = percent(evidence.share(name, "busy_ms_per_s", times, rest))
    others = "subtask was" if len(rest) == 1 else f"{len(rest)} subtasks were"
    yield (
        f"The other {others} busy {busy}; {percent(limiting.waiting)} of the records in flight to "
        f"{name} waited for {_subtasks(hot)}."
    )


def _rest(evidence: Evidence, stage: str, subtasks: Sequence[int]) -> list[int]:
    """Return the other subtasks of a stage."""
    count = evidence.scenario.stage(stage).parallelism
    return [index for index in range(count) if index not in subtasks]


def _advice(evidence: Evidence, stage: str, subtasks: Sequence[int]) -> str:
    """Return the advice for a limiting stage."""
    if evidence.scenario.stage(stage).requests is not None:
        return f"the requests of {stage} set the pace: see below"
    if evidence.scenario.stage(stage).external:
        return f"the service behind {stage} sets the pace: make it quicker or send it less"
    if not subtasks:
        return f"give {stage} more parallelism or speed"
    rest = _rest(evidence, stage, subtasks)
    hot = evidence.rate(stage, "rate_in", subtasks)
    subject, target = ("it", "it") if len(subtasks) == 1 else ("they", "them")
    if hot > _MORE_LOAD * evidence.rate(stage, "rate_in", rest):
        count = len(subtasks) + len(rest)
        share = hot * len(subtasks) / (evidence.rate(stage, "rate_in") * count)
        return f"{subject} got {percent(share)} of the records: spread the keys more evenly"
    return f"{subject} got no more records than the others: speed {target} up or send {target} less"


def _also(evidence: Evidence, name: str) -> Iterator[str]:
    """Yield what limited at other times, the longest first."""
    others = {other: length for other, length in evidence.limited_s.items() if other != name}
    lasting = [
        f"{other} limited for another {seconds(length)} s"
        for other, length in sorted(others.items(), key=lambda item: -item[1])
        if length >= 0.01 * evidence.total_s
    ]
    if lasting:
        yield f"Also, {join_words(lasting)}."


def _when(evidence: Evidence, name: str) -> str:
    """Return the part of the run in which something limited."""
    return _length(evidence.limited_s[name], evidence.total_s)


def _length(limited_s: float, total_s: float) -> str:
    """Return a part of a run in words."""
    if limited_s >= _ALWAYS * total_s:
        return f"in all {seconds(total_s)} s"
    return f"in {seconds(limited_s)} of {seconds(total_s)} s"


def _subtasks(subtasks: Sequence[int]) -> str:
    """Return ``subtask 2`` or ``subtasks 2 and 5``."""
    noun = "subtask" if len(subtasks) == 1 else "subtasks"
    return f"{noun} {join_words([str(subtask) for subtask in subtasks])}"


def percent(ratio: float) -> str:
    """Return a ratio in whole per cent."""
    return f"{100 * ratio:.0f} %"


def seconds(length_s: float) -> str:
    """Return seconds with as many decimals as matter: ``40``, ``2.5``, ``0.04``."""
    decimals = 0 if length_s >= 10 else 1 if length_s >= 1 else 3
    text = f"{length_s:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def size(nbytes: float) -> str:
    """Return a size with a binary unit: ``320 KiB``, ``1.5 MiB``."""
    value, unit = nbytes, 0
    while value >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    decimals = 0 if value >= 10 or not unit else 1
    return f"{f'{value:,.{decimals}f}'.removesuffix('.0')} {_UNITS[unit]}"


def join_words(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``; a long list ends in a count."""
    if len(words) > _MOST_NAMED:
        words = [*words[:_MOST_NAMED], f"{len(words) - _MOST_NAMED} more"]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
