#!/usr/bin/env bash
# Do all set-up and run every check: lint, format, types, tests without and with Spark.
#
#     ./run-tests.sh                          the quick form: few examples of each property
#     ./run-tests.sh --changed                of it, the nearest to what has changed since main
#     ./run-tests.sh --all                    it, and what nothing that has changed is near to
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
ensure_environment ready-test "$FC_EXTRAS,test"
# Some tests start spark-submit.sh: what it needs is there.
is_ready ready-run "$(environment_key "$FC_EXTRAS")" || mark_ready ready-run "$(environment_key "$FC_EXTRAS")"
find_spark
ensure_jars
export FLOWCONTROL_JARS=$FC_STATE/jars

case $* in
'') say "running every check, usually 10 to 12 minutes on two cores" ;;
--changed) say "running the checks that a change reaches, usually 1 to 3 minutes" ;;
--all) say "running every check, usually 15 minutes on two cores" ;;
--long) say "running every check at full depth, usually hours" ;;
*) exec "$FC_PYTHON" -m pytest "$@" ;;
esac
exec "$FC_PYTHON" scripts/checks.py "$@"
