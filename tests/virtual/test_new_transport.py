"""A transport is added by its file and its line in the table of parts: both clocks then run it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.memory import parts as k
from flowcontrol.memory.parts import parts_of
from flowcontrol.scenario import load_scenario
from flowcontrol.scenario.system import TRANSPORT_PARTS, Parameter, Part
from flowcontrol.systems import transports
from flowcontrol.systems.transports.rules import kind_of, rules_of_kind, transport_named

CONF = Path(__file__).resolve().parents[2] / "conf"

TOY = '''
"""Grants more, by turns one record more, once all that was granted was taken up."""

from flowcontrol.systems.transports.transport import RecordTransport, Transport


def more(slots, turn):
    return slots + turn % 2


def _parameters(given):
    return RecordTransport(slots=given.whole("slots"))


def _next_grant(transport, state, channel, end):
    if channel.processed < channel.announced:
        return channel.announced
    state.window += 1
    return channel.announced + more(transport.slots, state.window)


RULES = Transport(_next_grant, _parameters)
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write the file of a transport, and its line in the table."""
    (tmp_path / "toy.py").write_text(TOY)
    monkeypatch.setattr(transports, "__path__", [*transports.__path__, str(tmp_path)])
    slots = Parameter(50, "records", "granted at a time", 1)
    part = Part("grants that come when all is taken", {"slots": slots}, counts_records=True)
    monkeypatch.setitem(TRANSPORT_PARTS, "toy", part)
    yield
    for found in (rules_of_kind, transport_named):
        found.cache_clear()


@pytest.mark.usefixtures("toy")
def test_a_new_transport_runs_on_both_clocks(clocks: ModuleType) -> None:
    system = "system={transport: {name: toy, slots: 70}}"
    job = build_physical_graph(load_scenario(CONF / "experiment.yaml", overrides=[system]))
    assert parts_of(job) == k.RECORDS | k.transport_part(kind_of("toy"))
    assert k.EVERYTHING & k.transport_part(kind_of("toy")) == 0  # no kernel on disk has it
    states = []
    clocks.compare(job, 150, watch=states.append)
    sent = [state["producer->consumer"]["receiver"][0]["announced"] for state in states]
    assert sent[0] == 70
    assert len(set(sent)) > 20
    assert {after - before for before, after in pairwise(sent)} == {0, 70, 71}
