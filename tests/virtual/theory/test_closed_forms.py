"""The closed forms against values worked out by hand, and against each other."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest


def test_mm1_at_half_load(forms: ModuleType) -> None:
    """1/2 x 1/2 / (1 - 1/2) = 1/2 wait; 1/2 over 500/s is 1 ms."""
    queue = forms.mm1(500, 1000)
    assert (queue.waiting, queue.delay, queue.busy) == (0.5, 0.001, 0.5)


def test_mm1_at_four_fifths(forms: ModuleType) -> None:
    """0.64 / 0.2 = 3.2 wait, 4 with the one being served."""
    queue = forms.mm1(0.8, 1)
    assert queue.waiting == pytest.approx(3.2)
    assert queue.delay == pytest.approx(4)


def test_constant_service_halves_the_queue(forms: ModuleType) -> None:
    for load in (0.1, 0.5, 0.9):
        assert forms.md1(load, 1).waiting == pytest.approx(forms.mm1(load, 1).waiting / 2)


def test_varied_service_makes_it_longer(forms: ModuleType) -> None:
    """A coefficient of variation of 2: (1 + 4) / 2 times that of M/M/1."""
    assert forms.mg1(0.5, 1, 2).waiting == pytest.approx(2.5 * 0.5)


def test_mm1k_with_two_places(forms: ModuleType) -> None:
    """At load 1 the three states are equally likely: in one of them one record waits."""
    queue = forms.mm1k(1, 1, 2)
    assert queue.loss == pytest.approx(1 / 3)
    assert queue.waiting == pytest.approx(1 / 3)
    assert queue.throughput == pytest.approx(2 / 3)
    assert queue.delay == pytest.approx(1 / 2)


def test_mm1k_with_one_place_is_erlangs_loss_formula(forms: ModuleType) -> None:
    queue = forms.mm1k(2, 1, 1)
    assert queue.loss == pytest.approx(2 / 3)
    assert queue.waiting == 0


def test_mm1k_at_double_load(forms: ModuleType) -> None:
    """Weights 1, 2, 4, 8: 8 of 15 are lost; (0 x 2 + 1 x 4 + 2 x 8) / 15 wait."""
    queue = forms.mm1k(2, 1, 3)
    assert queue.loss == pytest.approx(8 / 15)
    assert queue.waiting == pytest.approx(20 / 15)


def test_mm1k_with_much_room_is_mm1(forms: ModuleType) -> None:
    narrow, wide = forms.mm1k(0.7, 1, 300), forms.mm1(0.7, 1)
    assert narrow.waiting == pytest.approx(wide.waiting)
    assert narrow.delay == pytest.approx(wide.delay)


def test_a_chain_solved_by_numbers_is_the_closed_form(forms: ModuleType) -> None:
    def moves(n: int) -> Iterator[tuple[int, float]]:
        if n < 5:
            yield n + 1, 1.2
        if n > 0:
            yield n - 1, 1.0

    share = forms.steady_state(moves, 0)
    assert sum(share.values()) == pytest.approx(1)
    assert share[5] == pytest.approx(forms.mm1k(1.2, 1, 5).loss)


def test_a_tandem_with_much_room_is_jacksons(forms: ModuleType) -> None:
    tandem = forms.blocking_tandem(0.3, 1, 0.9, (18, 18))
    assert tandem.first == pytest.approx(forms.mm1(0.3, 1).waiting, rel=1e-6)
    assert tandem.second == pytest.approx(forms.mm1(0.3, 0.9).waiting, rel=1e-6)
    assert tandem.loss == pytest.approx(0, abs=1e-8)


def test_a_tandem_with_a_quick_second_is_mm1k(forms: ModuleType) -> None:
    tandem, queue = forms.blocking_tandem(0.9, 1, 1e7, (3, 2)), forms.mm1k(0.9, 1, 4)
    assert tandem.first == pytest.approx(queue.waiting, rel=1e-5)
    assert tandem.throughput == pytest.approx(queue.throughput, rel=1e-5)
    assert tandem.loss == pytest.approx(queue.loss, rel=1e-5)


def test_a_tandem_without_end_of_arrivals_is_the_saturated_one(forms: ModuleType) -> None:
    tandem = forms.blocking_tandem(1e7, 1, 0.8, (2, 3))
    saturated = forms.saturated_tandem(1, 0.8, 3)
    assert tandem.throughput == pytest.approx(saturated.throughput, rel=1e-5)
    assert tandem.second == pytest.approx(saturated.waiting, rel=1e-5)
    assert tandem.blocked == pytest.approx(saturated.loss, rel=1e-5)


def test_what_is_let_in_comes_out(forms: ModuleType) -> None:
    tandem = forms.blocking_tandem(0.9, 1, 1, (3, 2))
    assert tandem.throughput == pytest.approx(0.9 * (1 - tandem.loss))


def test_an_interval_by_hand(forms: ModuleType) -> None:
    """Mean 3, standard deviation sqrt(2.5): 4.6041 x sqrt(2.5 / 5)."""
    middle, half = forms.interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert middle == 3.0
    assert half == pytest.approx(4.6041 * 0.5**0.5)
