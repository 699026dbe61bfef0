"""The facade has what it lists, and loads none of it before it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import flowcontrol.diagnosis as facade


def test_it_has_what_it_lists() -> None:
    assert {"data_skew", "fit_scenario", "root_cause"} < set(facade.__all__)
    for name in facade.__all__:
        assert callable(getattr(facade, name)), name


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match=r"'flowcontrol\.diagnosis' has no attribute 'guess'"):
        facade.guess  # noqa: B018


def test_importing_it_is_cheap() -> None:
    heavy = {"pandas", "pyarrow", "pyspark", "numba"}
    code = f"import sys, flowcontrol.diagnosis; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("[]\n", "")
