"""A first scenario from a few answers: commented text that is checked before anybody sees it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from flowcontrol.errors import ScenarioError
from flowcontrol.layout.plan import plan_memory
from flowcontrol.scenario import Scenario, check_clock, parse_scenario
from flowcontrol.scenario.options import memory_options
from flowcontrol.scenario.syntax import read_yaml_value
from flowcontrol.scenario.system import ALIASES, PRESETS, TRANSPORT_PARTS

SOURCE: Final = "source"
"""Name of the first stage."""

DURATION_S, SLOW_FROM_S, SLOW_TO_S = 60, 20, 40
"""A run of a minute; what slows down does so in the middle third."""

READS_FASTER: Final = 2
"""How much faster a source can read its log than the log grows, so that it catches up."""

_COLUMN: Final = 34
"""Where comments begin."""

Number = int | float


@dataclass(frozen=True)
class Sketch:
    """What a first scenario is made of."""

    name: str  # Of the scenario
    # Records/s that all subtasks of the source emit together, or that their log grows by.
    source_rate: Number
    # Stages behind the source, in the order in which records pass them, with the records/s that all
    # subtasks of each can process together; None: never the bottleneck.
    stages: dict[str, Number | None]
    parallelism: tuple[int, ...]  # Subtasks of each stage, the source first
    system: str = "flink"  # Whose flow control
    # Stage whose rate changes from 20 to 40 s, and to how many records/s of all its subtasks.
    slow: tuple[str, Number] | None = None
    # Whether what the source does not read waits in a log, as with Kafka; else it is lost.
    reads_log: bool = False
    # The connector whose defaults the last stage writes with, and what an answer takes, ms.
    connector: tuple[str, Number] | None = None


def has_buffers(sketch: Sketch) -> bool:
    """Tell whether its system has Flink's buffers; the queues of others count records."""
    preset = PRESETS.get(ALIASES.get(sketch.system, sketch.system))
    return preset is not None and not TRANSPORT_PARTS[preset.transport].counts_records


def scenario_text(sketch: Sketch) -> str:
    """Return the text of a scenario file, commented, which runs on the virtual clock.

    Raises ScenarioError if no scenario can be made of it, as it would be of the file.
    """
    text = "\n".join(_lines(sketch, {})) + "\n"
    scenario = _read(text, sketch.name)
    problems = check_clock(scenario, "virtual")
    if problems:
        raise ScenarioError(problems, sketch.name)
    if scenario.system.counts_records:
        return text
    plan = plan_memory(scenario)
    if plan.wanted <= scenario.options.network_buffers:
        return text
    memory = memory_options({}, plan.wanted, scenario.options.segment_bytes)
    text = "\n".join(_lines(sketch, memory)) + "\n"
    _read(text, sketch.name)
    return text


def _read(text: str, name: str) -> Scenario:
    return parse_scenario(read_yaml_value(text), name)


def _lines(sketch: Sketch, memory: dict[str, str | int]) -> Iterator[str]:
    """Yield the lines of the file; ``memory`` has the options that a large job needs."""
    way = " -> ".join([SOURCE, *sketch.stages])
    yield f"# {sketch.name}: {way}, {sketch.source_rate:,} records/s."
    yield "#"
    yield from _what_to_see(sketch)
    yield "# Every key is in docs/reference/scenario.md; `flowcontrol schema` is for your editor."
    yield "schema: 1"
    yield _line(f"name: {_word(sketch.name)}", "of the folder of results too")
    yield _line(f"duration_s: {DURATION_S}", "emulated time")
    yield _line("sample_interval_s: 1", "a row of results for each second")
    yield _line(f"system: {sketch.system}", "whose flow control; `flowcontrol systems` lists them")
    yield "cluster:"
    yield _line(f"  task_managers: {_managers(sketch)}", "subtasks are dealt out to them in turn")
    yield _line("  network_latency_ms: 0.5", "one way")
    yield from _options(sketch, memory)
    yield "stages:"
    yield from _source(sketch)
    for (name, capacity), width in zip(sketch.stages.items(), sketch.parallelism[1:], strict=False):
        yield f"  - name: {_word(name)}"
        yield f"    parallelism: {width}"
        yield from _capacity(name, capacity, sketch)
    yield from _requests(sketch)
    yield "edges:"
    names = [SOURCE, *sketch.stages]
    for sender, receiver in pairwise(map(_word, names)):
        yield f"  - {{from: {sender}, to: {receiver}, partitioner: rebalance}}"
    yield from _to_try(names)


def _word(name: str) -> str:
    """Return a name as YAML has it: in quotes where it would be a number, or true."""
    return name if read_yaml_value(name) == name else f"'{name}'"


def _line(text: str, comment: str) -> str:
    return f"{text.ljust(_COLUMN)}# {comment}"


def _what_to_see(sketch: Sketch) -> Iterator[str]:
    if sketch.slow is not None:
        name, rate = sketch.slow
        yield f"# From {SLOW_FROM_S} to {SLOW_TO_S} s {name} does {rate:,} records/s."
        yield "# See who is held up by that, how much is under way, and how long recovery takes."
    elif sketch.reads_log:
        yield "# See how far the source stays behind its log, and where the bottleneck is."
    else:
        yield "# See where the bottleneck is, and what it does to the stages before it."


def _managers(sketch: Sketch) -> int:
    """Return task managers with some four slots each, at least two, so that there is a network."""
    return max(2, -(-max(sketch.parallelism, default=1) // 4))


def _options(sketch: Sketch, memory: dict[str, str | int]) -> Iterator[str]:
    if not has_buffers(sketch):
        return
    network = "taskmanager.network.memory."
    yield "options:                          # Flink's own keys and values"
    yield "  taskmanager.memory.segment-size: 32kb  # size of a buffer"
    yield f"  {network}buffers-per-channel: 2"
    yield f"  {network}floating-buffers-per-gate: 8"
    for key, value in memory.items():
        yield f"  {key}: {value}  # enough for every pool"


def _source(sketch: Sketch) -> Iterator[str]:
    width = sketch.parallelism[0] if sketch.parallelism else 1
    yield f"  - name: {SOURCE}"
    yield f"    parallelism: {width}"
    rate: Number = sketch.source_rate
    if sketch.reads_log:
        yield _line(f"    total_arrival_rate: {rate}", "records/s written to its log, a topic")
        rate *= READS_FASTER
    what = "it can read" if sketch.reads_log else "it emits, all subtasks together"
    yield from _rate(SOURCE, rate, f"records/s that {what}", sketch)
    yield _line("    record_bytes: 1kb", "serialised size of a record")


def _capacity(name: str, capacity: Number | None, sketch: Sketch) -> Iterator[str]:
    is_slow = sketch.slow is not None and sketch.slow[0] == name
    if capacity is None and not is_slow:
        yield "    # no total_rate: it is never the bottleneck"
        return
    whole = READS_FASTER * sketch.source_rate if capacity is None else capacity
    yield from _rate(name, whole, "records/s it can process, all subtasks together", sketch)


def _requests(sketch: Sketch) -> Iterator[str]:
    if sketch.connector is not None:
        name, latency_ms = sketch.connector
        yield "    requests:                     # batches and retries as its connector has them"
        yield f"      like: {name}"
        yield _line(f"      latency_ms: {latency_ms}", "what the other side takes to answer")


def _rate(name: str, rate: Number, meaning: str, sketch: Sketch) -> Iterator[str]:
    if sketch.slow is None or sketch.slow[0] != name:
        yield _line(f"    total_rate: {rate}", meaning)
        return
    yield _line("    total_rate:", meaning)
    for at_s, phase in ((0, rate), (SLOW_FROM_S, sketch.slow[1]), (SLOW_TO_S, rate)):
        yield f"      - {{at_s: {at_s}, rate: {phase}}}"


def _to_try(names: list[str]) -> Iterator[str]:
    sender, receiver = map(_word, names[-2:])
    yield "# To try: a keyBy whose keys come up unevenly, in the place of the last edge"
    yield f"#  - from: {sender}"
    yield f"#    to: {receiver}"
    yield "#    partitioner: hash"
    yield "#    key_distribution: {kind: zipf, keys: 1000, exponent: 1.1}"
    yield "# or a garbage collection of a task manager, as a key of a stage"
    yield "#    stalls: [{at_s: 10, for_s: 2, subtasks: [0]}]"
