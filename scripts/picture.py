"""Draw the README's picture from a finished run of the experiment.

``python scripts/picture.py RUN_FOLDER SCENARIO TARGET.svg``
"""

from __future__ import annotations

import sys
from pathlib import Path

from deltalake import DeltaTable

from flowcontrol.records import RESULTS
from flowcontrol.report import picture
from flowcontrol.scenario import load_scenario


def main(run: str, scenario: str, target: str) -> None:
    """Read the result tables of a run and write the picture."""
    tables = {name: DeltaTable(f"{run}/{name}").to_pyarrow_table() for name in RESULTS}
    Path(target).write_text(picture(tables, load_scenario(scenario)))


if __name__ == "__main__":
    main(*sys.argv[1:])
