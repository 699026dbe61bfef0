"""``scripts/kafka.sh`` without a broker: what it refuses, and its ports and lock."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PORT_TOOL = ROOT / "scripts" / "kafka-port.py"
NO = 3


def port_tool(*words, **options):
    return subprocess.run(
        [sys.executable, str(PORT_TOOL), *words], capture_output=True, text=True, **options
    )


def last_line(done):
    return done.stderr.splitlines()[-1]


# Refusals: status 1, one line, nothing written.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["start", "now"], "after start stand options only"),
        (["start", "--port", "65536"], "--port 65536 is not a port"),
        (["start", "--port", "many"], "--port many is not a port"),
        (["start", "--prot", "1"], "there is no option --prot"),
        (["topic", "orders"], "after topic stand NAME PARTITIONS"),
        (["topic", "orders", "0"], "1 to 99999 partitions, not 0"),
        (["topic", "orders", "3"], "no broker runs in"),
        (["produce", "orders"], "no broker runs in"),
        (["restart"], "there is no command restart"),
    ],
)
def test_refused_in_one_line(empty, words, said):
    done = empty.run(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
    assert not empty.folder.exists()


def test_without_a_command_it_says_how_it_is_used(empty):
    done = empty.run()
    assert done.returncode == 1
    assert "usage: scripts/kafka.sh start" in done.stderr


@pytest.mark.parametrize("name", ["a,b", "a\\b"])
def test_folder_that_kafka_would_read_otherwise_is_refused(empty, name):
    folder = empty.folder.with_name(name)
    done = type(empty)(folder).run("start")
    assert done.returncode == 1
    assert "comma or a backslash" in last_line(done)
    assert not folder.exists()


def test_without_java_it_says_what_to_install(empty, tmp_path):
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("bash", "dirname", "readlink", "sed"):
        found = subprocess.run(["which", name], capture_output=True, text=True, check=True)
        (commands / name).symlink_to(found.stdout.strip())
    done = empty.run("start", PATH=str(commands), JAVA_HOME="")
    assert done.returncode == 1
    assert "Kafka needs Java 17 or newer" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not empty.folder.exists()


def test_stop_without_a_broker_has_nothing_to_do(empty):
    done = empty.run("stop")
    assert done.returncode == 0
    assert "no broker runs in" in done.stderr


def test_stop_ends_no_process_that_only_has_the_number_of_a_broker(empty):
    empty.folder.mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        (empty.folder / "pid").write_text(f"{other.pid}\n")
        (empty.folder / "lock").touch()
        assert "no broker runs in" in empty.run("stop").stderr
        assert other.poll() is None
        other.communicate(b"\n")


# Ports and the lock.


def test_two_free_ports_are_chosen():
    first, second = port_tool("ports", "0").stdout.split()
    assert first != second
    assert port_tool("ports", first).stdout.split()[0] == first


def test_port_that_is_taken_is_refused(empty):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert port_tool("ports", port).returncode == NO


def test_nobody_answers_on_a_free_port():
    port = port_tool("ports", "0").stdout.split()[0]
    assert port_tool("answers", port).returncode == NO


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (struct.pack(">iih", 6, 1, 0), 0),
        (struct.pack(">iih", 6, 1, 35), NO),  # unsupported version
        (struct.pack(">iih", 6, 2, 0), NO),  # an answer to something else
        (b"HTTP/1.1 400 Bad Request\r\n", NO),
        (b"", NO),
    ],
)
def test_only_a_broker_s_answer_counts(reply, status):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                # Size 10, request 18 (versions), version 0, number 1, no client name.
                assert connection.recv(64) == struct.pack(">ihhih", 10, 18, 0, 1, -1)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        assert port_tool("answers", str(server.getsockname()[1])).returncode == status
        thread.join()


def test_lock_is_held_as_long_as_the_file_is_open(tmp_path):
    command = f'"{sys.executable}" "{PORT_TOOL}" lock'
    held = f"exec 8>>lock; {command}; echo $?; (exec 8>>lock; {command}; echo $?)"
    first = subprocess.run(["bash", "-c", held], cwd=tmp_path, capture_output=True, text=True)
    assert first.stdout.split() == ["0", str(NO)]
    again = subprocess.run(["bash", "-c", held], cwd=tmp_path, capture_output=True, text=True)
    assert again.stdout.split() == ["0", str(NO)]
