#!/usr/bin/env bash
# Do all set-up and run every check: lint, format, types, tests without and with Spark.
#
#     ./run-tests.sh                          the quick form: few examples of each property
#     ./run-tests.sh --long                   all of it at full depth, with coverage: hours
#     ./run-tests.sh [arguments for pytest]   set-up, then pytest alone with these
#
# The last line is one like pytest's own, for all tests together.
set -euo pipefail

FC_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/env.sh
source "$FC_ROOT/scripts/env.sh"
cd "$FC_ROOT"

require_java
ensure_environment ready-run "$FC_EXTRAS" # as spark-submit.sh has it: some tests start that
ensure_environment ready-test "$FC_EXTRAS,test"
find_spark
ensure_jars
export FLOWCONTROL_JARS=$FC_STATE/jars
# Tests start hundreds of processes: none of them shall compile the package's modules again.
unset PYTHONDONTWRITEBYTECODE

if (($# > 0)) && [[ $* != --long ]]; then
    exec "$FC_PYTHON" -m pytest "$@"
fi
exec "$FC_PYTHON" scripts/checks.py "$@"
