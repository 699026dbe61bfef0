"""An entry that is compiled with all that it calls, as an object file that is loaded."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

numba = pytest.importorskip("numba")
if numba.config.DISABLE_JIT:
    pytest.skip("nothing is compiled here", allow_module_level=True)

from flowcontrol.kernel.cache import load, object_file  # noqa: E402
from flowcontrol.kernel.compiled import _PLAIN  # noqa: E402
from flowcontrol.kernel.lowering import Lean, linked  # noqa: E402

OPTIONS = {**_PLAIN, "pipeline_class": Lean}
SIGNATURE = (numba.types.int64[::1], numba.types.int64)


@numba.extending.register_jitable(**OPTIONS)
def _half(number: int) -> int:
    return number // 2


@numba.extending.register_jitable(**OPTIONS, forceinline=True)
def _quarter(number: int) -> int:
    return _half(_half(number))


def _entry(memory: Any, end: int) -> int:
    for i in range(len(memory)):
        memory[i] += _quarter(end)
    return _half(end)


def _code() -> bytes:
    return object_file(*linked(_entry, SIGNATURE, OPTIONS))


def test_it_computes_what_python_does() -> None:
    advance = load(_code())
    found, expected = np.arange(5), np.arange(5)
    assert advance(found, 9) == _entry(expected, 9) == 4
    assert found.tolist() == expected.tolist() == [2, 3, 4, 5, 6]


def test_it_is_the_same_each_time_and_two_may_be_loaded() -> None:
    """What the first needed is there already, and is linked again."""
    first, second = _code(), _code()
    one, other = load(first), load(second)
    assert len(first) == len(second)
    assert one(np.zeros(1, np.int64), 8) == other(np.zeros(1, np.int64), 8) == 4


def test_what_is_loaded_needs_no_numba(tmp_path: Any) -> None:
    (tmp_path / "code").write_bytes(_code())
    code = (
        "import sys, numpy, pathlib; from flowcontrol.kernel.cache import load;"
        "advance = load(pathlib.Path(sys.argv[1]).read_bytes());"
        "print(advance(numpy.zeros(3, numpy.int64), 9), 'numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "code")], capture_output=True, text=True
    )
    assert done.stdout == "4 False\n"


def test_other_functions_are_compiled_as_always() -> None:
    usual = numba.njit(lambda number: _quarter(number) + 1)
    generator = usual.targetctx.codegen()
    library = generator._library_class
    with pytest.raises(numba.errors.TypingError):
        linked(lambda memory, end: memory.planted, SIGNATURE, OPTIONS)
    assert generator._library_class is library
    assert usual(16) == 5
