"""The life of the broker that ``scripts/kafka.sh`` starts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PORT_TOOL = ROOT / "scripts" / "kafka-port.py"

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def port_tool(*words):
    return subprocess.run([sys.executable, str(PORT_TOOL), *words], capture_output=True, text=True)


def last_line(done):
    return done.stderr.splitlines()[-1]


def test_broker_answers_on_loopback_only(broker):
    host, port = broker.address.split(":")
    assert host == "127.0.0.1"
    assert port_tool("answers", port).returncode == 0
    sockets = Path(f"/proc/{broker.pid}/net/tcp")
    if sockets.exists():  # Linux
        assert listening(broker.pid) == {"127.0.0.1"}


def listening(pid):
    """The addresses on which a process listens."""
    inodes = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                raw = bytes.fromhex(words[1].split(":")[0])[-4:]
                found.add(socket.inet_ntoa(raw[::-1]))
    return found


def test_second_start_in_the_folder_is_refused(broker):
    pid = broker.pid
    done = broker.run("start")
    assert done.returncode == 1
    assert "a broker runs in" in last_line(done)
    assert "ends it" in last_line(done)
    assert broker.pid == pid


def test_port_of_a_broker_is_refused_to_another(broker, empty):
    done = empty.run("start", "--port", broker.address.split(":")[1])
    assert done.returncode == 1
    assert "cannot be had" in last_line(done)
    assert not empty.folder.exists()


def test_topic_is_made_once_and_a_misspelt_one_loses_nothing_in_silence(broker):
    broker.do("topic", "once", "3")
    again = broker.run("topic", "once", "3")
    assert again.returncode == 1
    assert "Topic 'once' already exists" in last_line(again)
    broker.do("produce", "once", given="a\t1\nb\t2\n")
    lost = broker.run("produce", "onec", given="a\t1\n")
    assert lost.returncode == 1
    assert "Topic onec not present" in last_line(lost)


@pytest.mark.long
def test_broker_keeps_what_it_holds_over_a_stop_and_a_kill(empty):
    try:
        first = empty.do("start").strip()
        assert first == empty.address
        empty.do("topic", "kept", "2")
        empty.do("stop")
        assert not (empty.folder / "address").exists()
        assert "no broker runs" in empty.run("topic", "kept", "2").stderr
        port = port_tool("ports", "0").stdout.split()[0]
        assert empty.do("start", "--port", port).strip() == f"127.0.0.1:{port}"
        assert "already exists" in empty.run("topic", "kept", "2").stderr
        os.kill(empty.pid, signal.SIGKILL)
        while "a broker runs" in (done := empty.run("start")).stderr:
            pass  # the kill is not done yet
        assert done.returncode == 0, done.stderr
        assert "already exists" in empty.run("topic", "kept", "2").stderr
    finally:
        empty.run("stop")
