"""How a broker is started beside a program, and ended."""

from __future__ import annotations

import socket
import sys

import pytest
from brokers import LOOPBACK, await_port, ended, free_ports

LISTENS = "import socket, sys, time; s = socket.socket(); s.bind(('127.0.0.1', int(sys.argv[1])))"


def test_a_broker_listens_within_its_block_alone() -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-c", f"{LISTENS}; s.listen(); time.sleep(60)", str(port)]
    with ended(command, {}) as broker:
        await_port(port, broker)
    assert broker.returncode is not None
    with pytest.raises(OSError), socket.create_connection((LOOPBACK, port)):
        pass


def test_a_broker_that_ends_is_not_waited_for() -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    with pytest.raises(ChildProcessError, match="ended with 3"), ended(command, {}) as broker:
        await_port(port, broker)
