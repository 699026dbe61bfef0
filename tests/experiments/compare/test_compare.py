"""A whole comparison of made-up systems: what is run, written, kept and refused."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module

import pytest

from flowcontrol.errors import RunError, ScenarioError
from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.compare import compare, print_comparison
from flowcontrol.experiments.compare.result import RATES, results_table
from flowcontrol.experiments.compare.run import plan_comparison, read_systems
from flowcontrol.scenario.system import PRESETS
from flowcontrol.spark.session import LAUNCHERS

NAMES = ["flink", "unbounded", "heron"]


@pytest.fixture
def comparing(chain, systems, tmp_path, monkeypatch):
    """A function that compares the made-up systems in this process."""
    import yaml

    monkeypatch.chdir(tmp_path)
    (tmp_path / "chain.yaml").write_text(yaml.safe_dump(chain))

    def run(**more):
        given = {"systems": NAMES, "processes": 1, "runner": systems.simulate, **more}
        return compare(tmp_path / "chain.yaml", **given)

    return run


def frame(path):
    from deltalake import DeltaTable

    return DeltaTable(str(path)).to_pandas()


def test_each_system_is_a_row_in_the_order_given(comparing, capsys):
    result = comparing()
    assert capsys.readouterr().err.startswith("heron is not run: ")
    table = frame(result.path / "results")
    assert list(table.columns) == list(results_table().names)
    table = table.set_index("system")
    assert list(table["state"].reindex(NAMES)) == ["ran", "ran", "refused"]
    assert [outcome.system for outcome in result.outcomes] == NAMES
    flink = table.loc["flink"]
    assert (flink["consumed"], flink["slowdowns"], flink["slowdowns_missed"]) == (6000, 1, 0)
    assert (flink["follow_s"], flink["is_bounded"]) == (1.0, "yes")
    assert flink["control_per_mb"] == pytest.approx(590 / 0.6)
    assert table.loc["unbounded", "slowdowns_missed"] == 1
    assert table.loc["unbounded", "heap_exhausted_s"] == 31.0
    assert "no such system" in table.loc["heron", "reason"]
    assert table["of_limit"].isna().to_dict() == {"flink": False, "unbounded": False, "heron": True}


def test_its_tables_keep_deltas_own_retention(comparing):
    from deltalake import DeltaTable

    path = comparing().path
    for name in ("results", "rates"):
        assert DeltaTable(str(path / name)).metadata().configuration == {}


def test_rates_over_time_are_a_table(comparing):
    table = frame(comparing().path / "rates")
    assert list(table.columns) == list(RATES.names)
    assert table.groupby("system").size().to_dict() == {"flink": 40, "unbounded": 40}
    last = table[(table["system"] == "unbounded") & (table["t_s"] == 40)].iloc[0]
    assert (last["produced"], last["consumed"], last["in_flight"]) == (200, 100, 2000)


def test_the_folder_is_where_it_was_named_or_in_out(comparing, tmp_path):
    assert comparing().path == tmp_path / "out" / "chain-compare"
    assert comparing(out=tmp_path / "here").path == tmp_path / "here"
    names = {path.name for path in (tmp_path / "here").iterdir()}
    assert names == {"results", "rates", "report.html", "comparison.json", ".lock"}


def test_a_finished_one_is_replaced_in_out_only(comparing, systems, tmp_path):
    comparing()
    comparing()
    assert systems.ran == ["flink", "unbounded"] * 2
    comparing(out=tmp_path / "x")
    with pytest.raises(ScenarioError, match=r"holds a finished comparison.*--overwrite"):
        comparing(out=tmp_path / "x")
    assert comparing(out=tmp_path / "x", overwrite=True).outcomes[0].state == "ran"


def test_what_failed_is_tried_again_and_what_ran_is_kept(comparing, systems, tmp_path):
    systems.broken.add("unbounded")
    first = comparing(out=tmp_path / "x")
    assert [outcome.system for outcome in first.failed()] == ["unbounded"]
    assert "ArithmeticError: a planted fault" in first.outcomes[1].reason
    assert not json.loads((tmp_path / "x" / "comparison.json").read_text())["finished"]
    systems.broken.clear()
    second = comparing(out=tmp_path / "x")
    assert systems.ran == ["flink", "unbounded", "unbounded"]
    assert second.failed() == []
    assert second.outcomes[0] == first.outcomes[0]


def test_another_unfinished_one_is_kept(comparing, systems, tmp_path):
    systems.broken.add("unbounded")
    comparing(out=tmp_path / "x")
    with pytest.raises(ScenarioError, match=r"unfinished comparison .* with other values in its"):
        comparing(out=tmp_path / "x", overrides=["duration_s=30"])
    with pytest.raises(ScenarioError, match=r"unfinished comparison \(chain, .*\): name another"):
        comparing(out=tmp_path / "x", systems=["flink"])


def test_a_folder_with_something_else_is_refused(comparing, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "precious").touch()
    with pytest.raises(ScenarioError, match="something that is not a comparison"):
        comparing(out=tmp_path / "x")
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["precious"]


def test_if_every_system_is_refused_nothing_is_written(comparing, tmp_path):
    with pytest.raises(ScenarioError, match=r"heron: system: (?s:.)*arroyo: system"):
        comparing(systems=["heron", "arroyo"], out=tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["flnk"], "unknown system 'flnk'; did you mean 'flink'?"),
        (["flink", "flink"], "'flink' is repeated"),
        (["storm", "storm-1"], "'storm-1' is repeated"),
        ([], "names no system"),
        ("flnk, storm", "unknown system 'flnk'"),
        (" ,", "names no system"),
    ],
)
def test_names_that_are_refused(names, text):
    with pytest.raises(ScenarioError) as caught:
        read_systems(names)
    assert text in str(caught.value)
    assert "--systems" in str(caught.value)


def test_without_names_all_presets_are_compared():
    assert read_systems(None) == tuple(PRESETS)
    assert read_systems(["storm", "flink"]) == ("storm-1", "flink")


def test_a_text_is_names_and_not_letters():
    assert read_systems("flink") == ("flink",)
    assert read_systems("storm, flink") == ("storm-1", "flink")


def test_a_scenario_that_is_wrong_is_refused_as_ever(chain, tmp_path):
    import yaml

    chain["stages"][1]["service_rate"] = -1
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(chain))
    with pytest.raises(ScenarioError, match=r"stages\[1\].service_rate"):
        plan_comparison(tmp_path / "wrong.yaml")


def test_the_identity_does_not_depend_on_the_scenarios_own_system(chain):
    one, other = (plan_comparison(varied_base({**chain, **more}).scenario([])) for more in
                  ({}, {"system": "flink"}))  # fmt: skip
    assert one.identity == other.identity
    assert one.identity != plan_comparison(one.scenario, systems=["flink"]).identity
    assert one.identity != plan_comparison(one.scenario, clock="live").identity


def test_live_is_emulated_unless_told_otherwise(comparing, monkeypatch, tmp_path):
    seen = []

    def emulate(scenario, *, out, clock, overwrite, progress):
        with progress(None) as shown:
            shown.update(1, 1)
        seen.append((out.name, clock, overwrite))
        raise RuntimeError("enough")

    import_module("flowcontrol.run.emulate")
    monkeypatch.setattr(sys.modules["flowcontrol.run.emulate"], "emulate", emulate)
    result = comparing(clock="live", processes=None, out=tmp_path / "x")
    assert seen == [(outcome.system, "live", True) for outcome in result.failed()]
    assert {outcome.reason for outcome in result.failed()} == {"RuntimeError: enough"}


def test_live_runs_one_after_the_other_each_in_a_folder(comparing, systems, tmp_path):
    folders = []

    def live(folder):
        folders.append(folder.relative_to(tmp_path))
        return systems.simulate

    result = comparing(clock="live", live=live, processes=None, out=tmp_path / "x")
    assert [str(folder) for folder in folders] == ["x/runs/flink", "x/runs/unbounded"]
    assert [outcome.state for outcome in result.outcomes] == ["ran", "ran", "refused"]


@pytest.mark.parametrize("count", [0, -1])
def test_there_is_at_least_one_process(comparing, count):
    with pytest.raises(ScenarioError, match=f"--processes: {count}"):
        comparing(processes=count)


def test_progress_is_told(comparing):
    told = []

    class Bar:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def update(self, done, failed=0):
            told.append(done)

    comparing(progress=lambda total, done: told.append((total, done)) or Bar())
    assert told[0] == (2, 0)
    assert told[-1] == 2


# ---------------------------------------------------------------------- page and terminal


def test_the_page_fetches_nothing_and_has_a_card_for_each(comparing):
    page = comparing().report.read_text()
    assert "default-src 'none'" in page
    markup = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r"\bsrc\s*=", markup)
    assert set(re.findall(r'href="([^"]*)"', markup)) == {"#system-flink", "#system-unbounded"}
    (found,) = re.findall(r'<script type="application/json" id="figures">(.*?)</script>', page)
    figures = json.loads(found)
    assert list(figures) == ["rates-flink", "rates-unbounded"]
    for name, figure in figures.items():
        assert markup.count(f'id="{name}"') == 1
        names = [trace["name"] for trace in figure["data"]]
        assert names == ["limit", "producers", "sinks", "in flight"]
    assert "heron</td><td>refused" in markup
    assert "did not follow the slowdown at 20 s" in markup


def test_all_cards_have_one_scale_and_the_limit(comparing):
    page = comparing().report.read_text()
    (found,) = re.findall(r'<script type="application/json" id="figures">(.*?)</script>', page)
    figures = json.loads(found).values()
    assert {tuple(f["layout"]["yaxis"]["range"]) for f in figures} == {(0, 216.0)}
    for figure in figures:
        limit = figure["data"][0]
        assert (limit["x"], limit["y"]) == ([0, 20, 40], [200, 100, 100])
        assert limit["line"]["shape"] == "hv"
        strokes = [(t["line"]["dash"], t["line"]["width"]) for t in figure["data"][:3]]
        assert len(set(strokes)) == 3


def test_the_table_sorts_by_numbers(comparing):
    page = comparing().report.read_text()
    (table,) = re.findall(r"<tbody>(.*?)</tbody>", page.partition('id="starving"')[0], flags=re.S)[
        :1
    ]
    keys = re.findall(r'data-order="([^"]*)"', table)
    assert keys[:2] == ["flink", "1"]
    assert len(keys) == 2 * 11


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_terminal_is_not_overrun(comparing, width):
    import io

    from rich.console import Console

    out = io.StringIO()
    print_comparison(comparing(), Console(file=out, width=width))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    (row,) = [line for line in lines if line.startswith("unbounded ")]
    assert "100 %" in row
    assert "above" in row
    assert any("heron refused: system" in line for line in lines)


def test_at_80_columns_every_figure_but_the_bytes_is_there(comparing):
    import io

    from rich.console import Console

    out = io.StringIO()
    print_comparison(comparing(), Console(file=out, width=80))
    heads = " ".join(out.getvalue().split("flink ")[0].split())
    for word in ("limit", "p50", "p99", "rec.", "swing", "lows", "back", "bound", "/MB"):
        assert word in heads


@pytest.mark.parametrize("names", ["flink", "flink,unbounded"])
@pytest.mark.parametrize("is_running", [False, True])
def test_it_starts_no_spark_that_it_does_not_need(comparing, monkeypatch, names, is_running):
    """On the virtual clock; one that runs already is taken."""
    module = import_module("flowcontrol.experiments.compare.compare")
    executor = import_module("flowcontrol.experiments.executor")
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)

    def starting():
        raise RuntimeError("Spark was started")

    monkeypatch.setattr(executor, "_own_session", starting)
    monkeypatch.setitem(sys.modules, "pyspark", sys)
    monkeypatch.setattr(module, "is_started", lambda: is_running)
    if is_running:
        with pytest.raises(RunError, match="Spark was started"):
            comparing(systems=names, processes=None)
    else:
        assert len(comparing(systems=names, processes=None).outcomes) == len(names.split(","))
