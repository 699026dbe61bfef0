"""What a sweep takes on a standalone cluster, beside the same one with a local master.

    .venv/bin/python bench/cluster_sweep.py [--variants 200] [--cores 2]

A master and a worker run on the loopback address of this machine and are stopped in the end. Each
sweep is a whole command, from ``./spark-submit.sh`` to its report, once with no kernel on disk for
driver or executors and once more with what the first has left. The goal: at most twice the local
time. On a cluster the package travels as an archive; before executors kept what they compile, the
first took minutes for each of their Python workers.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

ROOT = Path(__file__).resolve().parent.parent

GOAL = 2.0

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"
LOOPBACK = "127.0.0.1"

START_S = 60.0
"""How long a master or a worker may take to start."""


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def started(folder: Path, name: str, arguments: list[str], ready: str) -> Iterator[None]:
    """Run a process of the cluster until the block ends."""
    log = folder / f"{name}.log"
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": LOOPBACK,
        "FLOWCONTROL_CACHE": str(folder / "executors"),
    }
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(SPARK_CLASS), *arguments], env=environment, stdout=out, stderr=out
        )
    try:
        wait_for(process, log, ready)
        yield
    finally:
        process.terminate()
        process.wait()


def wait_for(process: subprocess.Popen[bytes], log: Path, text: str) -> None:
    """Wait until a process has printed a text."""
    deadline = time.monotonic() + START_S
    while text not in log.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{log.stem} did not start:\n{log.read_text()}")
        time.sleep(0.2)


@contextmanager
def cluster(folder: Path, cores: int) -> Iterator[str]:
    """Run a master and a worker; return the master's URL."""
    port = free_port()
    url = f"spark://{LOOPBACK}:{port}"
    at = ["--host", LOOPBACK, "--webui-port", "0"]
    master = [f"{DEPLOY}.master.Master", *at, "--port", str(port)]
    worker = [f"{DEPLOY}.worker.Worker", *at, "--cores", str(cores), "--memory", "2g"]
    worker += ["--work-dir", str(folder / "work"), url]
    with (
        started(folder, "master", master, "I have been elected leader"),
        started(folder, "worker", worker, "Successfully registered with master"),
    ):
        yield url


def run_sweep(folder: Path, name: str, master: str, variants: int) -> float:
    """Run the sweep as a command; return the seconds."""
    rates = f"stages.sink.service_rate=1000:20900:{variants}"
    command = [str(ROOT / "spark-submit.sh"), "--master", master]
    command += [str(ROOT / "pipelines" / "sweep.py"), str(ROOT / "conf" / "three-stages.yaml")]
    command += ["--vary", rates, "--out", str(folder / name)]
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": LOOPBACK,
        "FLOWCONTROL_CACHE": str(folder / f"driver of {name.partition(' ')[0]}"),
    }
    began = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    took = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"{name}: status {done.returncode}\n{done.stdout}{done.stderr}")
    said = [line for line in done.stderr.splitlines() if "compiling" in line]
    print(f"{name:12} {took:7.1f} s  {'; '.join(said)}", flush=True)
    return took


def main() -> int:
    """Print all times; return 0 if the goal is met."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--variants", type=int, default=200)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cluster-sweep-") as text:
        folder = Path(text)
        local = f"local[{options.cores}]"
        here = [run_sweep(folder, f"local {n}", local, options.variants) for n in (1, 2)]
        with cluster(folder, options.cores) as url:
            there = [run_sweep(folder, f"cluster {n}", url, options.variants) for n in (1, 2)]
    ratios = [far / near for far, near in zip(there, here, strict=True)]
    print(f"with no kernel {ratios[0]:.2f}, with one {ratios[1]:.2f}; the goal: at most {GOAL}")
    return 0 if ratios[0] <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
