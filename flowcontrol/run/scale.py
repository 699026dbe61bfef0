"""What controllers of the parallelism choose for a scenario, and the effect on the run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.frames import Tables
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.files import write_atomically
from flowcontrol.folders import Kind, open_anew
from flowcontrol.notices import quiet as silenced
from flowcontrol.report.result import Result
from flowcontrol.run.emulate import RunResult, ShowRun, emulate
from flowcontrol.run.jobs import job_for
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import Base, Given, Overrides, Texts, as_base, as_list
from flowcontrol.scenario.problems import known
from flowcontrol.scenario.scaling_models import POLICIES
from flowcontrol.topics.scaling import print_scalings, scaling_summary

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

NONE: Final = "none"
"""The run whose parallelism nobody changes."""

FILE: Final = "scaling.json"

_KIND: Final = Kind("scaling", "scale.json", "scaling", frozenset({"is_own_place", "policies"}))


@dataclass(frozen=True, repr=False)
class ScaleResult(Result):
    """What each policy chose, and the folder that its run is in."""

    scenario: Scenario  # Without a controller
    # By policy, ``none`` first: the run whose parallelism nobody changes.
    runs: dict[str, RunResult]
    path: Path  # Folder of ``scaling.json`` and of a folder for each run
    kind = "scaling of"

    @cached_property
    def name(self) -> str:
        """Name of the scenario."""
        return self.scenario.name

    @cached_property
    def summary(self) -> dict[str, Any]:
        """As in ``scaling.json``: of each run what became of it, by policy."""
        runs = {name: _figures(run) for name, run in self.runs.items()}
        return {
            "name": self.name,
            "duration_s": self.scenario.duration_s,
            "sentence": " ".join(s for one in runs.values() for s in one["sentences"]),
            "runs": runs,
        }

    @cached_property
    def sentence(self) -> str:
        """What each policy did, a sentence each."""
        return str(self.summary["sentence"])

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """``scalings``: those of all policies, with ``policy`` before the columns of a run."""
        import pyarrow as pa

        found = []
        for name, run in self.runs.items():
            if name != NONE:
                own = run.tables["scalings"]
                found.append(own.add_column(0, "policy", pa.array([name] * own.num_rows)))
        return {"scalings": pa.concat_tables(found)}

    def show(self, console: Console | None = None) -> None:
        """Print the steps of each policy, and the runs beside each other."""
        print_scalings(self.summary["runs"], console)


def scale(
    scenario: Given,
    *,
    policies: Texts = (),
    overrides: Overrides = (),
    out: Path | str | None = None,
    overwrite: bool = False,
    progress: ShowRun | None = None,
    quiet: bool = False,
) -> ScaleResult:
    """Run a scenario under each policy, and once with the parallelism that it states.

    Parameters
    ----------
    scenario : Scenario, mapping, or str or Path
        A scenario, the mapping in its file, or the file.
    policies : str or sequence of str, default ()
        ``ds2``, ``flink-autoscaler``; by default that of the scenario, or both if it has none. A
        policy that the scenario names has its keys there, another one its defaults.
    overrides : mapping or sequence of str, default ()
        Changes of the scenario: values by key, or ``KEY=VALUE`` each.
    out : Path or str, optional
        Folder of the results; default ``out/<name>-scale``.
    overwrite : bool, default False
        Replace what ``out`` holds.
    progress : callable, optional
        As of :func:`flowcontrol.emulate`.
    quiet : bool, default False
        Show no progress and no warnings.

    Returns
    -------
    ScaleResult
        Shows itself; ``scaling.json`` and the runs are written.

    Raises
    ------
    ScenarioError
        If a policy is unknown, or the scenario or the folder is refused. Nothing was written.
    RunError
        If a run failed.

    Examples
    --------
    >>> scale("conf/ds2-word-count.yaml").sentence  # doctest: +SKIP
    'ds2 scaled the job once, ...'
    """
    with silenced(quiet):
        planned = _planned(as_base(scenario, overrides), policies)
    root = Path("out", f"{planned[NONE].name}-scale") if out is None else Path(out)
    described = {_KIND.identity: planned[NONE].name, "policies": list(planned)}
    folder = open_anew(root, _KIND, described, named=out is not None, overwrite=overwrite)
    try:
        runs = {
            name: emulate(
                one, out=folder.root / name, clock="virtual", progress=progress, quiet=quiet
            )
            for name, one in planned.items()
        }
        result = ScaleResult(planned[NONE], runs, root)
        text = json.dumps(result.summary, indent=2, ensure_ascii=False)
        write_atomically(folder.root / FILE, text + "\n")
        folder.mark(finished=True)
    finally:
        folder.close()
    return result


def _planned(base: Base, policies: Texts) -> dict[str, Scenario]:
    """Return the scenario under each policy, by its name, and first as it is without one.

    Raises ScenarioError if a policy is unknown, or the virtual clock refuses a scenario.
    """
    stated = base.mapping.get("scaling")
    if stated is not None:
        base.scenario()  # what it states is refused as elsewhere
    own = stated["policy"] if stated else None
    chosen = list(dict.fromkeys(as_list(policies) or ([own] if own else POLICIES)))
    wrong = [name for name in chosen if name not in POLICIES]
    if wrong:
        text = known(str(wrong[0]), POLICIES, "policy")
        raise ScenarioError([Problem("--policy", text)], base.source)
    planned = {NONE: base.scenario([(["scaling"], None)])}
    for name in chosen:
        keys = stated if name == own else {"policy": name}
        planned[name] = base.scenario([(["scaling"], keys)])
    for one in planned.values():
        job_for(one, "virtual")
    return planned


def _figures(run: RunResult) -> dict[str, Any]:
    """Return what became of a run; of one without a controller, its figures alone."""
    tables: Tables = run.tables
    found: dict[str, Any] = run.summary.get("scaling") or {
        **scaling_summary(tables, run.job.scenario),
        "policy": NONE,
        "sentences": [],
    }
    lags = run.summary.get("lags", ())
    return {**found, "end_lag_s": max((one["end_s"] for one in lags), default=0.0)}
