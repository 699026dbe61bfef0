"""What the ledger of a link suggests, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flowcontrol.calibration.draft import Cost
from flowcontrol.calibration.link_advice import LinkRules
from flowcontrol.calibration.link_ledger import LinkLoad
from flowcontrol.cli.main import main as flowcontrol
from flowcontrol.experiments.advise.result import Change, Seen, Subject
from flowcontrol.scenario.given import as_base

MEMORY = "taskmanager.network.memory."


def scenario(rates: float | list[float] = 100.0, weights: list[float] | None = None) -> Any:
    count = len(rates) if isinstance(rates, list) else 1
    edge: dict[str, Any] = {"from": "events", "to": "main", "partitioner": "rebalance"}
    if weights is not None:
        edge |= {"partitioner": "hash", "channel_weights": weights}
    return {
        "schema": 1,
        "name": "link",
        "duration_s": 10,
        "cluster": {"task_managers": 1, "slots": count},
        "options": {
            MEMORY + "buffers-per-channel": 4,
            MEMORY + "floating-buffers-per-gate": 3,
            MEMORY + "max-buffers-per-channel": 16,
        },
        "stages": [
            {"name": "events", "emit_rate": 1000, "placement": [0]},
            {"name": "main", "parallelism": count, "service_rate": rates, "placement": [0] * count},
        ],
        "edges": [edge],
    }


def found(
    rows: dict[int, int],
    readers: tuple[tuple[int, ...], ...],
    *,
    batch: tuple[Cost, float] | None = None,
    key: tuple[str, ...] | None = ("id",),
    **more: Any,
) -> list[Change]:
    settings: Any = SimpleNamespace(key=key, exclusive_buffers=2, floating_buffers=8)
    base = as_base(scenario(**more))
    subject = Subject(base.scenario(), base.mapping, Seen("main", {"main": 1.0}, 0.5))
    changes = list(LinkRules(LinkLoad(settings, rows, readers), batch).changes(subject))
    for change in changes:
        base.scenario(change.keys)  # it is a scenario
    return changes


def documents(changes: list[Change], kind: str) -> list[dict[str, Any]]:
    return [change.document for change in changes if change.kind == kind]


def test_more_receivers_have_their_channels_rows() -> None:
    changes = found({0: 10, 1: 20, 2: 30, 3: 40}, ((0, 1, 2, 3),))
    first = documents(changes, "receivers")[0]
    assert first == {
        "stages.main.parallelism": 2,
        "stages.main.service_rate": 100.0,
        "stages.main.placement": [0, 0],
        "cluster.slots": 2,
        "edges[0].partitioner": "hash",
        "edges[0].channel_weights": [0.3, 0.7],
    }
    assert changes[0].name == "2 receivers instead of 1, of channels [0-1], [2-3]"


def test_more_receivers_than_channels_take_more_channels() -> None:
    """Rows of new channels are spread anew."""
    changes = found({0: 10, 1: 90}, ((0,), (1,)), rates=[20.0, 100.0], weights=[0.1, 0.9])
    three, four = documents(changes, "receivers")[:2]
    assert three["edges[0].channel_weights"] == pytest.approx([1 / 3] * 3, abs=1e-4)
    assert four["stages.main.parallelism"] == 4
    assert changes[0].name.endswith("and channels=6 instead of 2")
    assert three["stages.main.service_rate"] == 100.0


def test_a_hot_channel_gets_a_receiver_of_its_own() -> None:
    changes = found({0: 10, 1: 10, 2: 70, 3: 10}, ((0, 1, 2, 3),))
    change = next(c for c in changes if "of its own" in c.name)
    assert change.name == "a receiver of its own for channel 2"
    assert change.why == "it carries 70 % of the rows"
    assert change.document["edges[0].channel_weights"] == [0.7, 0.3]
    even = found({0: 10, 1: 10, 2: 14, 3: 10}, ((0, 1, 2, 3),))
    assert not [c for c in even if "of its own" in c.name]


def test_another_key_helps_only_where_several_read_by_one() -> None:
    two = {"rates": [20.0, 100.0], "weights": [0.1, 0.9]}
    changes = found({0: 10, 1: 90}, ((0,), (1,)), **two)
    assert documents(changes, "key") == [
        {"edges[0].partitioner": "hash", "edges[0].channel_weights": [0.5, 0.5]}
    ]
    assert not documents(found({0: 10, 1: 90}, ((0,), (1,)), key=None, **two), "key")
    assert not documents(found({0: 10, 1: 90}, ((0, 1),)), "key")


def test_larger_batches_are_faster_by_what_a_batch_costs() -> None:
    """100 rows cost 500 ms and 5 ms each: 10 ms a row; of 200 rows 7.5."""
    more, less = documents(
        found({0: 10, 1: 10}, ((0, 1),), batch=(Cost(5.0, 500.0), 100.0)), "batches"
    )
    assert more == {
        f'options."{MEMORY}buffers-per-channel"': 8,
        f'options."{MEMORY}floating-buffers-per-gate"': 6,
        f'options."{MEMORY}max-buffers-per-channel"': 32,
        "stages.main.service_rate": pytest.approx(133.33, rel=1e-3),
    }
    assert less["stages.main.service_rate"] == pytest.approx(100 * 10 / 15, rel=1e-3)
    unknown = documents(found({0: 10, 1: 10}, ((0, 1),)), "batches")
    assert all("stages.main.service_rate" not in one for one in unknown)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "SCENARIO: name a scenario, or a link with --link PATH"),
        (["one.yaml", "--link", "somewhere"], "SCENARIO: name a scenario, or a link"),
        (["one.yaml", "--spark", "progress.jsonl"], "--spark: progress.jsonl: only with --link"),
        (["--link", "nowhere"], "--link: there is no link here (no file link.json)"),
    ],
)
def test_what_is_refused(
    arguments: list[str],
    text: str,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert flowcontrol(["advise", *arguments]) == 2
    assert text in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
