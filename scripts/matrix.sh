#!/usr/bin/env bash
# Run the live tests of the link and of the job against each version of Spark that is supported:
#
#     scripts/matrix.sh [VERSION...]       such as 4.0 4.1; all of scripts/supported.yaml by default
#
# Locally, on a standalone cluster that it starts and ends, and through Spark Connect. Each version
# has an environment of its own in .venv-matrix. Prints a table; the exit status is 1 if something
# fails that is listed as supported. Half an hour a version on two cores.
set -euo pipefail

FC_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/env.sh
source "$FC_ROOT/scripts/env.sh"
cd "$FC_ROOT"

table=$FC_ROOT/scripts/supported.yaml
delta=$(sed -n 's/^delta: \([0-9.]*\).*/\1/p' "$table")
known=$(sed -n 's/^  "\([0-9.]*\)":$/\1/p' "$table")
folder=$FC_ROOT/.venv-matrix
if (($# == 0)); then
    # shellcheck disable=SC2086  # a word each
    set -- $known
fi
for version in "$@"; do
    grep -qx "$version" <<<"$known" || die "Spark $version is not in scripts/supported.yaml: ${known//$'\n'/ }"
done
require_java
mkdir -p "$folder"

results=()
for version in "$@"; do
    pyspark=$(sed -n "/^  \"$version\":/,/^  \"/s/^    pyspark: //p" "$table")
    FC_VENV=$folder/$version
    FC_PYTHON=$FC_VENV/bin/python
    FC_STATE=$FC_VENV/flowcontrol
    DELTA_PACKAGE=io.delta:delta-spark_${version}_2.13:$delta
    has_delta=$(sed -n "/^  \"$version\":/,/^  \"/s/^    delta: //p" "$table")
    FC_CONSTRAINTS=$folder/constraints-$version.txt
    sed -e "s/^pyspark==.*/pyspark==$pyspark/" -e "s/^delta_spark==.*/delta_spark==$delta/" \
        requirements/constraints.txt >"$FC_CONSTRAINTS"
    unset SPARK_HOME
    if [[ $has_delta == none ]]; then # the extra "spark" asks for one
        ensure_environment ready-test "${FC_EXTRAS#spark,},test"
        "$FC_PYTHON" -m pip install --quiet --disable-pip-version-check --constraint "$FC_CONSTRAINTS" pyspark
        find_spark
    else
        ensure_environment ready-test "$FC_EXTRAS,test"
        find_spark
        ensure_jars
    fi
    export FLOWCONTROL_JARS=$FC_STATE/jars
    say "Spark $pyspark: running the tests (half an hour on two cores)"
    PATH=$FC_VENV/bin:$PATH "$FC_PYTHON" scripts/matrix.py run "$version" "$folder/$version.json"
    results+=("$folder/$version.json")
done
"$FC_PYTHON" scripts/matrix.py table "${results[@]}"
