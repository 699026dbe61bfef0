#!/usr/bin/env bash
# Build the site of the documents into out/docs, and say where it is:
#
#     scripts/docs.sh [sphinx-build options]
#
# As strict as the check in run-tests.sh: a warning is an error. Needs no network once the environment
# is there.
set -euo pipefail

FC_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/env.sh
source "$FC_ROOT/scripts/env.sh"
cd "$FC_ROOT"

# What the tests need has this in it.
is_ready ready-test "$(environment_key "$FC_EXTRAS,test")" || ensure_environment ready-docs "$FC_EXTRAS,docs"
say "building the documents, usually 5 to 10 s"
"$FC_PYTHON" -m sphinx -W --keep-going -q -b html "$@" docs out/docs ||
    die "the documents have errors: see above"
say "open $FC_ROOT/out/docs/index.html"
