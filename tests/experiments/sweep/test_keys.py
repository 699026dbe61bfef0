"""Varied keys: their paths, the names of their columns, the types of their values."""

from __future__ import annotations

import pytest

from flowcontrol.experiments.sweep.varied import Varied, name_columns
from flowcontrol.scenario.given import read_path

PER_CHANNEL = "taskmanager.network.memory.buffers-per-channel"
BASE = {"stages": [{"name": "source"}, {"name": "a sink"}]}


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("duration_s", ("duration_s",)),
        (f'options."{PER_CHANNEL}"', ("options", PER_CHANNEL)),
        (f"options.{PER_CHANNEL}", ("options", PER_CHANNEL)),
        ("stages.source.emit_rate", ("stages", "source", "emit_rate")),
        ("stages[0].emit_rate", ("stages", "source", "emit_rate")),
        ("stages[1].service_rate", ("stages", "a sink", "service_rate")),
        ("stages[2].service_rate", ("stages", "2", "service_rate")),
        ('stages."a sink".service_rate', ("stages", "a sink", "service_rate")),
        ("stages.source.emit_rate[0].rate", ("stages", "source", "emit_rate", "0", "rate")),
        ("edges[0].partitioner", ("edges", "0", "partitioner")),
        ("cluster.task_managers", ("cluster", "task_managers")),
    ],
)
def test_a_key_is_written_one_way(key, path):
    assert read_path(key, BASE) == path


@pytest.mark.parametrize("key", ["", "a.", "a]b", "stages[.x"])
def test_what_is_no_path_is_refused(key):
    with pytest.raises(ValueError, match="not a path"):
        read_path(key, BASE)


@pytest.mark.parametrize("key", ["stages", "stages[0]", "options"])
def test_a_base_without_stages_is_no_obstacle(key):
    assert read_path(key, {})[0] in {"stages", "options"}


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ([("options", PER_CHANNEL)], ["buffers_per_channel"]),
        ([("options", "execution.checkpointing.unaligned.enabled")], ["unaligned_enabled"]),
        ([("options", "execution.checkpointing.interval")], ["checkpointing_interval"]),
        ([("options", "taskmanager.network.numberOfBuffers")], ["numberofbuffers"]),
        ([("stages", "sink", "service_rate")], ["sink_service_rate"]),
        ([("stages", "a sink", "service_rate")], ["a_sink_service_rate"]),
        ([("cluster", "task_managers")], ["task_managers"]),
        ([("seed",)], ["seed_2"]),
        ([("round_ms",)], ["round_ms_2"]),
        (
            [("edges", "0", "partitioner"), ("edges", "1", "partitioner")],
            ["edges_0_partitioner", "edges_1_partitioner"],
        ),
        ([("a", "x-y"), ("a", "x_y")], ["a_x_y", "a_x_y_2"]),
    ],
)
def test_columns_are_short_and_unlike(paths, names):
    assert name_columns(paths, ["seed", "round_ms"]) == names


@pytest.mark.parametrize(
    ("values", "kind", "typed"),
    [
        ((1, 2), "int64", [1, 2]),
        ((1, 2.5), "float64", [1.0, 2.5]),
        (("4kb", "8kb"), "string", ["4kb", "8kb"]),
        (("4kb", 8192), "string", ["4kb", "8192"]),
        ((True, False), "string", ["true", "false"]),
        (([1, 2], 3), "string", ["[1, 2]", "3"]),
    ],
)
def test_a_column_has_the_type_of_its_values(values, kind, typed):
    varied = Varied(("a",), values, "a", "a")
    assert varied.result_column().type == kind
    found = [varied.typed(value) for value in values]
    assert found == typed
    assert [type(value) for value in found] == [type(value) for value in typed]


@pytest.mark.parametrize(
    ("path", "values", "title"),
    [
        (("stages", "sink", "service_rate"), (1, 2), "x (records/s per subtask)"),
        (("options", PER_CHANNEL), (1, 2), "x (buffers)"),
        (("options", "taskmanager.memory.segment-size"), ("4kb",), "x"),
        (("stages", "sink", "service_time"), ("constant",), "x"),
    ],
)
def test_numbers_have_a_unit(path, values, title):
    assert Varied(path, values, "x", "x").title == title


def test_every_unit_belongs_to_a_key_that_scenarios_have():
    from flowcontrol.experiments.sweep.varied import _UNITS
    from flowcontrol.scenario import Stage
    from flowcontrol.scenario.models import Cluster
    from flowcontrol.scenario.option_table import OPTIONS

    known = {*OPTIONS, *Cluster.model_fields, *Stage.model_fields, "selectivity"}
    known |= {"duration_s", "sample_interval_s", "round_ms"}
    assert set(_UNITS) <= known
