"""What all tests share: profiles of Hypothesis, and one Spark session, made when asked for."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, seed, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from narrow import Narrow

# A run that a script started in the background inherits Ctrl-C as ignored, and hands that on to
# whatever it starts; some tests press Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ROOT / "flowcontrol" / "spark"

sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts")]  # jvm, changed

TOOK_S: Counter[str] = Counter()
"""By test file, s."""

# A failing example is printed as a blob that reproduces it (print_blob). No deadline: a shared
# machine is slow now and then, and a slow example is no failure. A test that wants more or fewer
# examples than others takes a share of settings.default.max_examples, so that profiles hold for it.
settings.register_profile("long", max_examples=100, deadline=None, print_blob=True)
settings.register_profile("quick", settings.get_profile("long"), max_examples=25)
settings.register_profile("nightly", settings.get_profile("long"), max_examples=20_000)
settings.register_profile("fast", settings.get_profile("long"), phases=[Phase.explicit])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that start Spark for themselves, which may run beside the shared session.

    Those of the long form are left out of the quick one.
    """
    if "FLOWCONTROL_LONG" not in os.environ:
        left_out = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if item.get_closest_marker("spark"):
            if "mark.spark" not in _source(item.path):
                raise pytest.UsageError(f"{item.path}: write pytest.mark.spark in the file itself")
            if "spark" not in fixtures:
                item.add_marker("starts")
    if "PYTEST_XDIST_WORKER" in os.environ:
        # The long files are those with few tests: last, they would leave other workers idle.
        tests = Counter(item.path for item in items)
        items.sort(key=lambda item: tests[item.path])


@cache
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what the tests of a file take."""
    TOOK_S[report.nodeid.partition("::")[0]] += report.duration


def pytest_sessionfinish() -> None:
    """Keep what files took for ``run-tests.sh --changed``."""
    folder = Path(sys.prefix) / "flowcontrol"
    if "PYTEST_XDIST_WORKER" in os.environ or not folder.is_dir():
        return
    file, known = folder / "durations.json", {}
    with suppress(OSError, ValueError):
        known = json.loads(file.read_text())
    rounded = {name: round(took_s, 2) for name, took_s in TOOK_S.items()}
    new = file.with_suffix(f".{os.getpid()}")  # several runs may end at once
    new.write_text(json.dumps(known | rounded, indent=0))
    new.replace(file)


def pytest_collection_finish() -> None:
    """Leave what was collected out of every later search for garbage, and search less often.

    All modules and 10,000 tests stand there to the end: searching them takes a tenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture
def draw_until() -> Callable[[Callable[[], None], Callable[[], bool], int], None]:
    """Run a property again, with other examples, until what is seldom has been met.

    With --hypothesis-seed alone every run of a property draws the same examples.
    """

    def draw(look: Callable[[], None], is_enough: Callable[[], bool], most: int) -> None:
        first = int(os.environ.get("FLOWCONTROL_SEED", random.randrange(1 << 32)))
        print(f"FLOWCONTROL_SEED={first}")
        for number in range(most):
            seed(first + number)(look)()
            if is_enough():
                break

    return draw


@pytest.fixture(scope="session")
def narrow() -> type[Narrow]:
    """Return the integers whose results must fit into 64 bits."""
    from narrow import Narrow

    return Narrow


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return the one Spark session of a test run, with the start script's own settings."""
    from pyspark.sql import SparkSession

    from flowcontrol.spark.session import CHECKPOINT_FILES, without_delta
    from flowcontrol.spark.versions import checkpoint_file_manager, has_delta
    from jvm import CHEAP, delta_jars, delta_package, read_settings

    home = tmp_path_factory.mktemp("spark")
    # Spark starts PATH's python3 for its workers otherwise, which may be another version.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Workers hash strings alike; and nothing listens on the network.
    os.environ.setdefault("PYTHONHASHSEED", "0")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Quiet logs, and no settings of this machine's.
    os.environ["SPARK_CONF_DIR"] = str(SETTINGS / "conf")
    chosen = {
        **read_settings(SETTINGS / "defaults.conf"),
        **read_settings(SETTINGS / "local.conf"),
        CHECKPOINT_FILES: checkpoint_file_manager(),
        # Two cores, as the smallest machine that the tests must pass on.
        "spark.master": os.environ.get("FLOWCONTROL_MASTER", "local[2]"),  # scripts/matrix.py
        "spark.app.name": "flowcontrol tests",
        # -Xss16m: stopping a Python foreachBatch query in mid-batch overflows the usual stack. And
        # a JVM that runs everything a few times is not worth compiling twice.
        "spark.driver.extraJavaOptions": f"-Xss16m {CHEAP}",
        # A plan that runs a few times on some rows is not worth compiling, nor making twice.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        # A busy machine is no error; queries are stopped in mid-batch, and Python workers started.
        "spark.sql.streaming.stopTimeout": "1800s",
        # Tables that a test makes by name are gone with the run.
        "spark.sql.warehouse.dir": str(home / "warehouse"),
    }
    if not has_delta():
        chosen = without_delta(chosen)
    elif jars := delta_jars():
        chosen["spark.jars"] = ",".join(jars)
    else:  # an environment that the start script did not make
        chosen["spark.jars.packages"] = delta_package()
    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
