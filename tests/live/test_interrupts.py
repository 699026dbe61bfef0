from __future__ import annotations

import os
import signal
import threading

import pytest

from flowcontrol.spark.session import asking_on_interrupt, holding_interrupts


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_interrupt_asks_and_the_second_interrupts() -> None:
    asked: list[str] = []
    with asking_on_interrupt(lambda: asked.append("stop")):
        press_ctrl_c()
        assert asked == ["stop"]
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
    assert asked == ["stop"]


def test_the_handler_of_before_is_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with asking_on_interrupt(lambda: None):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(ValueError, match="fails"), asking_on_interrupt(lambda: None):
        raise ValueError("fails")
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_leaves_signals_alone() -> None:
    inside: list[object] = []

    def work() -> None:
        with asking_on_interrupt(lambda: None):
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [signal.getsignal(signal.SIGINT)]


def test_a_held_interrupt_waits_for_the_end() -> None:
    before, done = signal.getsignal(signal.SIGINT), list[str]()
    with pytest.raises(KeyboardInterrupt), holding_interrupts():
        press_ctrl_c()
        press_ctrl_c()
        done.append("all of it")
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is before


def test_holding_changes_nothing_without_an_interrupt() -> None:
    with holding_interrupts():
        pass
    with pytest.raises(ValueError, match="fails"), holding_interrupts():
        raise ValueError("fails")


def test_a_handler_that_the_block_installs_stays() -> None:
    before = signal.getsignal(signal.SIGINT)

    def own(*_: object) -> None: ...

    try:
        with holding_interrupts():
            signal.signal(signal.SIGINT, own)
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
