#!/usr/bin/env bash
# A real Flink beside the emulation: builds the job, measures it, emulates it, compares.
#
#     bench/real_flink/run.sh [RUN | JOB | MODE ...]
#
# Maven fetches Flink; a JDK (11 or newer) compiles the job. Nothing leaves loopback while it runs.
# Measurements stay in out/real_flink. docs/explanation/real-flink.md explains them.
set -euo pipefail
cd "$(dirname "$0")/../.."

for tool in mvn javac; do
    if ! command -v "$tool" >/dev/null; then
        echo "run.sh needs $tool: install Maven and a JDK, as with apt-get install maven default-jdk-headless" >&2
        exit 1
    fi
done
python="${FLOWCONTROL_VENV:-.venv}/bin/python"
[ -x "$python" ] || python=python3

mvn -q -B -f bench/real_flink/pom.xml compile dependency:build-classpath -Dmdep.outputFile=target/classpath
"$python" bench/real_flink/measure.py out/real_flink "$@"
"$python" bench/real_flink/compare.py out/real_flink "$@"
