"""What scripts/kafka.sh cannot do in bash alone.

``lock`` takes the lock on the open file 8, which the broker inherits. ``ports PORT`` prints two
free ports of this machine, PORT and another, or any two if it is 0. ``answers PORT`` asks whether a
Kafka broker answers there. Exit status 0 is a yes; 3 a no: taken, or nobody answers.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys

HOST = "127.0.0.1"
LOCK_FILE = 8
NO = 3  # not 1, which is what Python ends with when something went wrong
API_VERSIONS = 18  # the request that every broker of any version answers


def lock() -> bool:
    """Take the lock; it lasts as long as any process has file 8 open."""
    try:
        fcntl.flock(LOCK_FILE, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def ports(wanted: int) -> bool:
    """Print two free ports; 0 wants any."""
    with socket.socket() as broker, socket.socket() as controller:
        # As Java listens: what a stopped broker left in TIME_WAIT is not in the way.
        broker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            broker.bind((HOST, wanted))
        except OSError:
            return False
        controller.bind((HOST, 0))
        sys.stdout.write(f"{broker.getsockname()[1]} {controller.getsockname()[1]}\n")
    return True


def answers(port: int) -> bool:
    """Ask for the versions of its protocol: size, request, version 0, number 1, no client name."""
    request = struct.pack(">hhih", API_VERSIONS, 0, 1, -1)
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            reply = connection.makefile("rb").read(10)
    except OSError:
        return False
    # Size, number, error.
    return len(reply) == 10 and struct.unpack(">iih", reply)[1:] == (1, 0)


def main(command: str, port: str = "0") -> bool:
    """Do what the command says and return whether it went well."""
    if command == "lock":
        return lock()
    return {"ports": ports, "answers": answers}[command](int(port))


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else NO)
