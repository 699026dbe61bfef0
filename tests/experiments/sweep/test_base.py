"""What a sweep may be given as the scenario to vary."""

from __future__ import annotations

import pytest
import yaml

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.base import varied_base
from flowcontrol.scenario import parse_scenario


def test_a_mapping_is_taken_as_it_is_and_not_changed(chain):
    base = varied_base(chain, ["duration_s=3"])
    assert base.mapping["duration_s"] == 3
    assert chain["duration_s"] == 10


def test_a_file_is_read_and_its_inputs_lie_beside_it(chain, tmp_path):
    file = tmp_path / "chain.yaml"
    file.write_text(yaml.safe_dump(chain))
    base = varied_base(str(file))
    assert (base.mapping, base.source, base.folder) == (chain, str(file), str(tmp_path))


def test_a_change_that_cannot_be_made_is_refused(chain):
    with pytest.raises(ScenarioError, match="snik"):
        varied_base(chain, ["stages.snik.service_rate=1"])


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match="cannot be read"):
        varied_base(tmp_path / "no.yaml")


def test_the_parallelism_of_a_scenario_that_was_read_can_be_varied(chain):
    scenario = parse_scenario(chain)
    base = varied_base(scenario)
    assert base.scenario([]).canonical() == scenario.canonical()
    wider = base.scenario([(("stages", "map", "parallelism"), 3)])
    assert wider.stage("map").parallelism == 3
    assert wider.stage("map").placement == (1, 0, 1)


def test_a_placement_that_was_chosen_is_kept(chain):
    chain["stages"][1]["placement"] = [0]
    scenario = parse_scenario(chain)
    base = varied_base(scenario)
    assert base.scenario([]).stage("map").placement == (0,)
    assert base.scenario([]).canonical() == scenario.canonical()


def test_schedules_of_subtasks_that_differ_are_kept(chain):
    chain["stages"][1] |= {"parallelism": 2, "service_rate": [100, 200]}
    scenario = parse_scenario(chain)
    assert varied_base(scenario).scenario([]).canonical() == scenario.canonical()
