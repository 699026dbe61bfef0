#!/usr/bin/env bash
# Do all set-up and run every check: lint, format, types, fast tests, Spark tests, coverage.
#
#     ./run-tests.sh [arguments for pytest]
#
# With arguments only pytest runs, once, with these. The last line is pytest's own.
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

check() {
    say "$*"
    "$FC_PYTHON" -m "$@"
}

if (($# > 0)); then
    exec "$FC_PYTHON" -m pytest "$@"
fi

# Quick ones first. Everything runs even if something fails, but then the script fails too.
failed=''
check ruff check . || failed+=' lint'
check ruff format --check . || failed+=' format'
check mypy || failed+=' types'
if command -v shellcheck >/dev/null; then
    shellcheck -x spark-submit.sh run-tests.sh scripts/kafka.sh .ci/run || failed+=' shell'
fi
check coverage erase
check pytest -m 'not spark' --cov --cov-report= || failed+=' fast-tests'
[[ -z $failed ]] || say "failed so far:$failed"
check pytest -m spark --cov --cov-append || failed+=' spark-tests'
[[ -z $failed ]] || die "failed:$failed"
