"""Run scenarios on the virtual clock and write their tables: a process for tests to start.

python interpreted.py OUT SCENARIO...          with NUMBA_DISABLE_JIT=1, or
python interpreted.py --without-numba OUT SCENARIO...
"""

from __future__ import annotations

import sys
from pathlib import Path

if sys.argv[1] == "--without-numba":
    sys.modules["numba"] = None  # type: ignore[assignment]
    del sys.argv[1]

import pyarrow as pa

from flowcontrol.kernel.compiled import is_compiled
from flowcontrol.scenario import load_scenario
from flowcontrol.virtual import simulate

assert not is_compiled()
out = Path(sys.argv[1])
for path in map(Path, sys.argv[2:]):
    for name, table in simulate(load_scenario(path)).tables.items():
        target = str(out / f"{path.stem}-{name}.arrow")
        with pa.OSFile(target, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
