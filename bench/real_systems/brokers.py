"""Brokers that programs need beside them: on loopback alone, in a folder that is thrown away."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from flink_run import go_first

RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""As Debian installs it."""

START_S, STOP_S = 90.0, 30.0
"""Longest times that a broker may take, s."""

LOOPBACK = "127.0.0.1"


@contextlib.contextmanager
def rabbitmq(folder: Path) -> Iterator[str]:
    """Run RabbitMQ with its AMQP 1.0 plugin; its address.

    The names that its Erlang node is known by are kept by a process of its own, so that nothing
    stays behind and another broker on the machine is left alone.
    """
    if not RABBITMQ.exists():
        raise FileNotFoundError("RabbitMQ is not there: apt-get install rabbitmq-server")
    port, node_port, names_port = free_ports(3)
    (folder / "plugins").write_text("[rabbitmq_amqp1_0].\n")
    (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = {LOOPBACK}:{port}\n")
    settings = {
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"flowcontrol-{port}@localhost",
        "RABBITMQ_MNESIA_BASE": str(folder / "node"),
        "RABBITMQ_LOG_BASE": str(folder / "logs"),
        "RABBITMQ_LOGS": str(folder / "broker.log"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_DIST_PORT": str(node_port),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "ERL_EPMD_PORT": str(names_port),
    }
    names = ["epmd", "-address", LOOPBACK, "-port", str(names_port)]
    with ended(names, {}), ended([str(RABBITMQ)], settings) as broker:
        await_port(port, broker)
        yield f"{LOOPBACK}:{port}"


@contextlib.contextmanager
def kafka(folder: Path) -> Iterator[str]:
    """Run a Kafka broker; its address."""
    script = str(Path(__file__).resolve().parents[2] / "scripts" / "kafka.sh")
    place = ("--dir", str(folder / "broker"))
    try:
        started = subprocess.run(
            [script, "start", *place],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=go_first,
        )
        yield started.stdout.split()[-1]
    finally:
        subprocess.run([script, "stop", *place], check=True)


@contextlib.contextmanager
def ended(command: list[str], settings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process; end it, and those that it started, behind the block."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process listens."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port)):
            return
        if process.poll() is not None:
            raise ChildProcessError(f"a broker ended with {process.returncode} as it started")
        time.sleep(0.2)
    raise TimeoutError(f"a broker did not listen within {START_S:g} s")


def free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on."""
    with contextlib.ExitStack() as bound:
        sockets = [bound.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]
