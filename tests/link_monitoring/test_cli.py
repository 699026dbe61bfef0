"""The command: what it prints, how it ends, and that it needs no JVM."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import urllib.request

import pytest

from flowcontrol.cli.main import main
from flowcontrol.link.monitoring.table import labels, open_monitors

COMMAND = [sys.executable, "-m", "flowcontrol", "watch"]


@pytest.fixture
def path(live_link):
    """A link with a blocked sender."""
    sender, receiver = live_link.sender(), live_link.receiver()
    sender.write({0: 100, 1: 10})
    receiver.take()
    return str(live_link.path)


# ---------------------------------------------------------------------- once


def test_once_prints_a_table_and_ends(path, capsys):
    assert main(["watch", path, "--once"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Starting: receiver main of live has not ended its first batch, so far")
    assert re.search(r"^0 +\d+ ", out, re.M)
    assert (err, "\x1b" in out, max(map(len, out.splitlines())) <= 80) == ("", False, True)


def test_a_path_that_is_no_link_is_refused(path, tmp_path, capsys):
    assert main(["watch", path, str(tmp_path), "--once"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"flowcontrol: {tmp_path}: there is no link here (no file link.json): name the folder that "
        "was given to Link(...)\n"
    )
    assert main(["watch", str(tmp_path / "missing"), "--once"]) == 2


def test_a_damaged_link_is_refused(tmp_path, capsys):
    (tmp_path / "link.json").write_text("{}")
    assert main(["watch", str(tmp_path), "--once"]) == 2
    assert "link.json is not a link's" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--every", "0.09"], "'0.09' is out of range: needs seconds, at least 0.1 and at most"),
        (["--every", "3601"], "'3601' is out of range"),
        (["--every", "nan"], "'nan' is out of range"),
        (["--every", "soon"], "'soon' is out of range"),
        (["--window", "0.5"], "at least 1 and"),
        (["--port", "0"], "'0' is out of range: needs a port, 1 to 65535"),
        (["--port", "65536"], "'65536' is out of range"),
        (["--port", "-1"], "out of range"),
        (["--port", "1e3"], "out of range"),
        (["--onc"], "unknown option '--onc'"),
    ],
)
def test_arguments_out_of_range_are_refused(path, arguments, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["watch", path, *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_nothing_asked_for_is_refused(capsys):
    for arguments in ([], ["watch"], ["look"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_a_port_for_one_look_is_refused(path, capsys):
    assert main(["watch", path, "--once", "--port", "9100"]) == 2
    assert "--once and --port exclude each other" in capsys.readouterr().err


def test_the_limits_themselves_are_taken(path, capsys):
    assert main(["watch", path, "--once", "--every", "0.1", "--window", "1"]) == 0
    assert main(["watch", path, "--once", "--every", "3600", "--window", "3600"]) == 0
    capsys.readouterr()


# ---------------------------------------------------------------------- names of links


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["/lake/a", "/lake/b"], ["a", "b"]),
        (["/one/a", "/two/a"], ["one/a", "two/a"]),
        (["/one/a", "/two/a/"], ["one/a", "two/a"]),
        (["/x/one/a", "/y/one/a", "/y/one/b"], ["x/one/a", "y/one/a", "y/one/b"]),
        (["s3://bucket/a", "/lake/a"], ["bucket/a", "lake/a"]),
        (["/a"], ["a"]),
        (["/lake/a", "/lake/a"], ["/lake/a", "/lake/a"]),
        ([], []),
    ],
)
def test_as_much_of_a_path_as_tells_links_apart(paths, expected):
    assert labels(paths) == expected


def test_relative_paths_have_a_name_too(path, monkeypatch):
    monkeypatch.chdir(path)
    (monitor,) = open_monitors(["."])
    assert monitor.label == "live"


# ---------------------------------------------------------------------- processes


def test_no_engine_is_loaded(path):
    """A fresh interpreter: this one has them loaded long since."""
    heavy = {"pyspark", "py4j", "delta", "deltalake", "pandas", "numba", "plotly", "matplotlib"}
    code = (
        "import sys; from flowcontrol.cli.main import main; "
        f"status = main(['watch', {path!r}, '--once']); "
        f"sys.exit(str(sorted({heavy!r} & set(sys.modules))) if not status else status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "[]\n"
    assert "Starting" in done.stdout


def test_elsewhere_than_on_a_terminal_tables_follow_each_other(path):
    process = subprocess.Popen(
        [*COMMAND, path, "--every", "0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    seen = b""
    while seen.count(b"Starting") < 3:
        seen += process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err, b"\x1b" in seen) == (0, b"", False)


def test_a_reader_that_has_seen_enough_is_no_error(path):
    process = subprocess.Popen(
        [*COMMAND, path, "--every", "0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert (process.wait(), process.stderr.read()) == (0, b"")
    process.stderr.close()


def test_a_link_that_goes_away_ends_it_with_a_message(path):
    import shutil

    process = subprocess.Popen(
        [*COMMAND, path, "--every", "0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    shutil.rmtree(path)
    _, err = process.communicate()
    assert process.returncode == 1
    assert b"there is no link here" in err


def test_a_port_serves_and_no_table_is_printed(path):
    port = free_port()
    process = subprocess.Popen(
        [*COMMAND, path, "--every", "0.1", "--port", str(port)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    said = process.stderr.readline().decode()
    assert said == f"flowcontrol: serving http://127.0.0.1:{port}/metrics\n"
    text = ""
    while "flowcontrol_link_backlog_rows{" not in text:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (0, b"", b"")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Terminal:
    """A process on a terminal of its own, and all that it wrote there."""

    def __init__(self, *arguments: str, lines: int) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # readline puts LINES and COLUMNS into the environment of pytest, so of its workers too.
            environment = {**os.environ, "TERM": "xterm-256color"}
            for name in ("LINES", "COLUMNS"):
                environment.pop(name, None)
            command = [sys.executable, "-m", "flowcontrol", *arguments]
            os.execve(sys.executable, command, environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, 80, 0, 0))
        self.seen = b""

    def read(self, until: bytes, count: int = 1) -> None:
        while self.seen.count(until) < count and self._more():
            pass

    def _more(self) -> bool:
        select.select([self.fd], [], [], 60)
        try:
            found = os.read(self.fd, 65536)
        except OSError:
            found = b""
        self.seen += found
        return bool(found)

    def end(self) -> int:
        os.write(self.fd, b"\x03")
        while self._more():
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_on_a_terminal_it_is_redrawn_until_ctrl_c(path):
    terminal = Terminal("watch", path, "--every", "0.2", lines=24)
    terminal.read(b"Starting", 3)
    time.sleep(0.05)
    status = terminal.end()
    assert status == 0
    assert b"Traceback" not in terminal.seen
    assert b"\x1b[?25l" in terminal.seen  # the cursor is hidden, and shown again
    assert terminal.seen.rindex(b"\x1b[?25h") > terminal.seen.rindex(b"\x1b[?25l")


def test_a_low_terminal_shows_the_worst_channels_only(path):
    # Too low for two channels however many lines the sentence takes, which depends on its figures.
    terminal = Terminal("watch", path, "--every", "0.2", lines=7)
    terminal.read(b"Starting", 2)
    terminal.end()
    assert b"and 1 channels that wait less" in terminal.seen
