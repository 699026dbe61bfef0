#!/usr/bin/env bash
# A real Flink beside the emulation: builds the program, runs it, emulates the same, compares.
#
#     bench/real_flink/run.sh SCENARIO.yaml [--flink 1.20|2|VERSION] [--set KEY=VALUE] [--dump FILE]
#     bench/real_flink/run.sh [RUN | JOB | MODE ...]
#
# The first runs a scenario; the second measures the checkpoints of the jobs of jobs/.
# Maven fetches Flink; a JDK (11 or newer) compiles the program. Nothing leaves loopback while it
# runs. Measurements stay in out/real_flink. docs/explanation/real-flink.md explains them.
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

for argument in "$@"; do
    case "$argument" in
        *.yaml | *.yml | --*) exec "$python" "$bench/scenario_run.py" "$@" ;;
    esac
done

cd "$bench/../.."
mvn -q -B -f bench/real_flink/pom.xml compile dependency:build-classpath -Dmdep.outputFile=target/1.20.1/classpath
"$python" bench/real_flink/measure.py out/real_flink "$@"
"$python" bench/real_flink/compare.py out/real_flink "$@"
