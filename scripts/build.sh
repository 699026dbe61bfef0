#!/usr/bin/env bash
# Build the package into dist/, and try it where nothing else is:
#
#     scripts/build.sh [--no-trial]
#
# Makes the sdist and the wheel, with a compiled kernel, checks their metadata, installs the wheel
# into an empty environment with its extras, and runs it from a folder outside the checkout: the
# commands, a run on the virtual clock, a link between two queries. --no-trial stops before the
# environment.
set -euo pipefail

FC_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/env.sh
source "$FC_ROOT/scripts/env.sh"
cd "$FC_ROOT"

trial=yes
[[ ${1:-} != --no-trial ]] || { trial='' && shift; }
(($# == 0)) || die "$1 is not known here: scripts/build.sh [--no-trial]"

python=$(find_python) || die "Python 3.11 or newer with its venv module is needed and none was found"
work=$(mktemp -d)
built=$FC_ROOT/flowcontrol/kernel/built
trap 'rm -rf "$work" "$built"' EXIT

say "building into dist/ (a minute or two)"
"$python" -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet --disable-pip-version-check build twine
rm -rf dist build flowcontrol.egg-info/SOURCES.txt "$built"
# A kernel for any processor of this kind goes along, so that whoever installs the wheel compiles
# nothing; elsewhere the first run compiles its own.
"$work/tools/bin/pip" install --quiet --disable-pip-version-check \
    --constraint requirements/constraints.txt '.[virtual]'
(cd "$work" && FLOWCONTROL_QUIET=1 FLOWCONTROL_CACHE=$work/kernels "$work/tools/bin/python" -c \
    'from flowcontrol.kernel.loop import prepare; from flowcontrol.memory.parts import EVERYTHING
prepare(EVERYTHING)') || die "the virtual clock cannot be compiled"
mkdir "$built"
for kernel in "$work"/kernels/kernel-*; do
    cp "$kernel/kernel.o" "$built/${kernel##*/}"
done
"$work/tools/bin/python" -m build --outdir dist . >"$work/build.log" 2>&1 ||
    die "the build failed: $(tail -n 5 "$work/build.log")"
"$work/tools/bin/twine" check --strict dist/*
rm -rf build

wheel=$(printf '%s\n' "$FC_ROOT"/dist/*.whl)
"$python" "$FC_ROOT/scripts/wheel_files.py" "$wheel"
[[ -n $trial ]] || exit 0

say "installing the wheel into an empty environment (a minute or two)"
"$python" -m venv "$work/trial"
install() {
    DIST_EXTRA_CONFIG=$FC_ROOT/requirements/wheels.cfg "$work/trial/bin/pip" install --quiet \
        --disable-pip-version-check --constraint requirements/constraints.txt "$1"
}
install "$wheel"
# What the wheel has is run from elsewhere: in the checkout Python would find the checkout.
mkdir "$work/elsewhere"
cp conf/experiment.yaml "$work/elsewhere"
run() {
    say "flowcontrol $*"
    (cd "$work/elsewhere" && env -u PYTHONPATH "$work/trial/bin/flowcontrol" "$@" >"$work/said" 2>&1) ||
        die "flowcontrol $* failed: $(tail -n 5 "$work/said")"
}
run --help
run systems
run plan experiment.yaml
virtual_run() { # what it prints
    (cd "$work/elsewhere" && env -u PYTHONPATH "$work/trial/bin/python" -c \
        'import flowcontrol; flowcontrol.emulate("experiment.yaml", clock="virtual")' 2>&1)
}
install "${wheel}[virtual,metrics]"
say "a run on the virtual clock"
with=$(virtual_run) || die "the virtual clock failed: ${with##*$'\n'}"
[[ $with != *compiling* ]] || die "the wheel's kernel was not used: $with"
find "$work/elsewhere" -name report.html | grep -q . || die "no report page was written"

require_java
install "${wheel}[spark]"
say "the link of the documents, on Spark"
(cd "$work/elsewhere" && env -u PYTHONPATH SPARK_LOCAL_IP=127.0.0.1 "$work/trial/bin/python" \
    "$FC_ROOT/scripts/try_link.py" >"$work/said" 2>&1) ||
    die "the link failed: $(tail -n 20 "$work/said")"
tail -n 1 "$work/said"
say "dist/ is complete: ${wheel##*/}"
