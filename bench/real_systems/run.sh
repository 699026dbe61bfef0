#!/usr/bin/env bash
# A real system beside the emulation: builds its program, runs it, emulates the same, compares.
#
#     bench/real_systems/run.sh SYSTEM [SCENARIO.yaml ...] [--set KEY=VALUE] [--keep]
#
# Maven fetches the system; a JDK (11 or newer) compiles the program. Nothing leaves loopback while
# it runs. docs/explanation/real-systems.md explains what is compared.
set -euo pipefail
bench="$(cd "$(dirname "$0")" && pwd)"

for tool in mvn javac; do
    if ! command -v "$tool" >/dev/null; then
        echo "run.sh needs $tool: install Maven and a JDK, as with apt-get install maven default-jdk-headless" >&2
        exit 1
    fi
done
python="${FLOWCONTROL_VENV:-$bench/../../.venv}/bin/python"
[ -x "$python" ] || python=python3
PYTHONPATH="$bench/../..${PYTHONPATH:+:$PYTHONPATH}" exec "$python" "$bench/run.py" "$@"
