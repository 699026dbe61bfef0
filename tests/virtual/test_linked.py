"""Functions that are compiled only in what calls them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

numba = pytest.importorskip("numba")
if numba.config.DISABLE_JIT:
    pytest.skip("nothing is compiled here", allow_module_level=True)

from flowcontrol.kernel.lowering import linked_only  # noqa: E402


@numba.extending.register_jitable
def _half(number: int) -> int:
    if number % 2:
        raise ValueError("odd")
    return number // 2


@numba.extending.register_jitable
def _quarter(number: int) -> int:
    return _half(_half(number))


def _entry() -> Any:
    return numba.njit(lambda number: _quarter(number) + 1)


def _generator(dispatcher: Any) -> Any:
    return dispatcher.targetctx.codegen()


def _symbols(dispatcher: Any, name: str) -> list[str]:
    """Functions of a name that have machine code of their own."""
    found = _generator(dispatcher)._engine._defined_symbols
    return [one for one in found if name in one and "NumbaEnv" not in one]


@pytest.mark.parametrize("is_linked", [True, False])
def test_a_linked_function_computes_and_has_no_machine_code_of_its_own(is_linked: bool) -> None:
    def twice_then_one(number: int) -> int:
        return 2 * number + 1

    inner = numba.extending.register_jitable(forceinline=True)(twice_then_one)
    entry = numba.njit(lambda number: inner(number) + 1)
    before = len(_symbols(entry, "twice_then_one"))
    with linked_only(_generator(entry)) if is_linked else nullcontext():
        assert entry(5) == 12
    assert (len(_symbols(entry, "twice_then_one")) == before) is is_linked
    assert entry(6) == 14


def test_it_raises_what_it_raises() -> None:
    entry = _entry()
    with linked_only(_generator(entry)):
        assert entry(4) == 2
    with pytest.raises(ValueError, match="odd"):
        entry(6)


def test_what_is_compiled_later_is_compiled_as_always() -> None:
    entry, later = _entry(), _entry()
    usual = _generator(entry)._library_class
    with pytest.raises(ZeroDivisionError), linked_only(_generator(entry)):
        entry(4)
        raise ZeroDivisionError
    assert _generator(later)._library_class is usual
    assert later(16) == 5


def test_a_function_that_python_calls_may_be_compiled_meanwhile() -> None:
    entry = _entry()
    called = numba.njit(lambda number: _half(number))
    with linked_only(_generator(entry)):
        assert called(6) == 3
        assert entry(4) == 2


def test_numba_with_other_libraries_compiles_as_always(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = _entry()
    generator = _generator(entry)
    other = type("Other", (generator._library_class,), {})
    monkeypatch.setattr(generator, "_library_class", other)
    with linked_only(generator):
        assert generator._library_class is other
        assert entry(4) == 2
