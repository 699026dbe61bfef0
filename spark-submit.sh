#!/usr/bin/env bash
# Start a pipeline on Spark, with everything that it needs:
#
#     ./spark-submit.sh [spark-submit options] pipelines/NAME.py [its arguments]
#
# The first start makes the environment (.venv, or FLOWCONTROL_VENV) and fetches Delta's JARs. What
# runs on the virtual clock gets a light one, without Spark; the first start that needs Spark adds it.
#
# The pipeline is started as pyspark's own shell is: Python first, and Spark's spark-submit, with
# the options, at the moment the pipeline asks for a session. So the terminal, both streams, Ctrl-C
# and the exit status are the pipeline's; through spark-submit they would be the JVM's, which hides
# the terminal behind a pipe and stops Spark on Ctrl-C before the pipeline can. And what is refused
# before Spark is needed is refused at once. With --deploy-mode cluster the driver runs elsewhere:
# that goes through spark-submit itself.
set -euo pipefail

FC_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/env.sh
source "$FC_ROOT/scripts/env.sh"
# shellcheck source=scripts/classes.sh
source "$FC_ROOT/scripts/classes.sh"

usage() {
    cat <<'USAGE'
usage: ./spark-submit.sh [spark-submit options] PIPELINE.py [arguments of the pipeline]

Starts the pipeline on Spark; the first start makes the environment. The options are those of
Spark's spark-submit; --master is local[*] unless given here, by SPARK_MASTER or by a properties
file. With --clock virtual among the pipeline's arguments no Java is needed, nor for a pipeline
that says so in a line of its own, "# needs no Java".

FLOWCONTROL_VENV    folder of the environment, of this checkout alone (default: .venv beside this script)
FLOWCONTROL_PYTHON  the Python to make it from (default: the first of 3.11 or newer on the PATH)
USAGE
}

options=()              # spark-submit options, as given, less those that are merged below
keys=$'\n'              # Spark settings that the user gave on the command line
master='' name='' deploy_mode=client properties='' load_defaults=''
jars='' py_files='' packages=''

take_conf() { # KEY=VALUE
    keys+=${1%%=*}$'\n'
    case $1 in
        spark.master=*) master=${1#*=} ;;
        spark.app.name=*) name=${1#*=} ;;
        spark.submit.deployMode=*) deploy_mode=${1#*=} ;;
        spark.jars=*) jars=${jars:-${1#*=}} && return ;;
        spark.submit.pyFiles=*) py_files=${py_files:-${1#*=}} && return ;;
        spark.jars.packages=*) packages=${1#*=} ;;
    esac
    options+=(--conf "$1")
}

take_option() { # OPTION VALUE
    case $1 in
        -c | --conf) take_conf "$2" && return ;;
        --jars) jars=$2 && return ;;
        --py-files) py_files=$2 && return ;;
        --master) master=$2 ;;
        --name) name=$2 ;;
        --deploy-mode) deploy_mode=$2 ;;
        --driver-java-options) keys+=spark.driver.extraJavaOptions$'\n' ;;
        --properties-file) properties=$2 ;;
        --packages) packages=$2 ;;
    esac
    options+=("$1" "$2")
}

# Options up to the first word that is none; that one is the pipeline.
while (($# > 0)); do
    case $1 in
        -h | --help) usage && exit 0 ;;
        --load-spark-defaults) load_defaults=yes && options+=("$1") ;;
        --supervise | --verbose | -v) options+=("$1") ;;
        --archives=* | --class=* | --conf=* | --deploy-mode=* | --driver-*=* | --exclude-packages=* | \
            --executor-*=* | --files=* | --jars=* | --keytab=* | --master=* | --name=* | \
            --num-executors=* | --packages=* | --principal=* | --properties-file=* | \
            --proxy-user=* | --py-files=* | --queue=* | --repositories=* | --total-executor-cores=*)
            take_option "${1%%=*}" "${1#*=}"
            ;;
        --archives | --class | --conf | -c | --deploy-mode | --driver-* | --exclude-packages | \
            --executor-* | --files | --jars | --keytab | --master | --name | --num-executors | \
            --packages | --principal | --properties-file | --proxy-user | --py-files | --queue | \
            --repositories | --total-executor-cores)
            (($# > 1)) || die "$1 needs a value"
            take_option "$1" "$2"
            shift
            ;;
        -*) die "$1 is not an option of spark-submit that is known here; those of the pipeline stand\
 after its name" ;;
        *) break ;;
    esac
    shift
done
if (($# == 0)); then
    usage >&2
    exit 1
fi
pipeline=$1
shift
[[ $pipeline == *.py ]] || die "$pipeline is no pipeline: its name must end in .py"
[[ -f $pipeline ]] || die "there is no file $pipeline"

# Does the pipeline never start Spark, by its own word or by the clock that its arguments name?
needs_no_java() {
    local word before=''
    if grep -qx '# needs no Java' "$pipeline"; then
        return
    fi
    for word in "$@"; do
        [[ $word == --clock=virtual || "$before $word" == '--clock virtual' ]] && return
        before=$word
    done
    return 1
}

# Python as Spark starts it: output at once, hashes that are the same in every process.
export PYTHONUNBUFFERED=1 PYTHONHASHSEED=${PYTHONHASHSEED:-0}

if needs_no_java "$@"; then
    ensure_light_environment
    exec "$FC_PYTHON" "$pipeline" "$@"
fi
require_java
ensure_environment ready-run "$FC_EXTRAS"
find_spark
ensure_jars

# Quiet logs, unless this machine has settings of its own for Spark.
export SPARK_CONF_DIR=${SPARK_CONF_DIR:-$FC_ROOT/flowcontrol/spark/conf}
# Spark's launcher sources this folder's spark-env.sh without quotes; it is only a filter: do without.
[[ $SPARK_CONF_DIR != "$FC_ROOT/"* || $FC_ROOT != *' '* ]] || export SPARK_ENV_LOADED=1

# Print the value that a properties file of the user's gives the setting $1, if one does.
from_properties() {
    local file pattern=${1//./\\.}
    for file in "$properties" "$SPARK_CONF_DIR/spark-defaults.conf"; do
        if [[ $file != "$properties" && -n $properties && -z $load_defaults ]]; then
            continue # Spark reads one of the two, unless asked to read both
        fi
        [[ -r $file ]] || continue
        sed -nE "s/^[[:space:]]*${pattern}([[:space:]]*[=:][[:space:]]*|[[:space:]]+)//p" "$file" |
            tail -n 1 | grep . && return
    done
    return 1
}

is_set() { # KEY: did the user say anything about it?
    [[ $keys == *$'\n'"$1"$'\n'* ]] || from_properties "$1" >/dev/null
}

set_default() { # KEY VALUE
    is_set "$1" || options+=(--conf "$1=$2")
}

default_settings() { # FILE
    local key value
    while read -r key value; do
        [[ -z $key || $key == '#'* ]] || set_default "$key" "$value"
    done <"$1"
}

[[ -n $master ]] || master=$(from_properties spark.master) || {
    master=${SPARK_MASTER:-local[*]}
    options+=(--master "$master")
}
[[ -n $name ]] || set_default spark.app.name "$(basename "$pipeline")"
jars=${jars:-$(from_properties spark.jars || true)}
py_files=${py_files:-$(from_properties spark.submit.pyFiles || true)}
packages=${packages:-$(from_properties spark.jars.packages || true)}

# 16 MB: stopping a Python foreachBatch query in mid-batch overflows a thread's usual stack.
set_default spark.driver.defaultJavaOptions -Xss16m
default_settings "$FC_ROOT/flowcontrol/spark/defaults.conf"

case $master in
    local | local\[*)
        # Spark takes the later of two values: these win over the ones above.
        if grep -qx '# many short jobs' "$pipeline"; then
            default_settings "$FC_ROOT/flowcontrol/spark/short_jobs.conf"
            use_classes
        fi
        default_settings "$FC_ROOT/flowcontrol/spark/local.conf"
        export PYSPARK_PYTHON=$FC_PYTHON
        # Spark's ports are for its own processes here: nothing listens on the network.
        export SPARK_LOCAL_IP=${SPARK_LOCAL_IP:-127.0.0.1}
        ;;
    *)
        # The executors' machines have no checkout: the package travels, their Python is theirs.
        export PYSPARK_PYTHON=${PYSPARK_PYTHON:-$FC_PYTHON}
        (cd "$FC_ROOT" && "$FC_PYTHON" scripts/pack.py "$FC_STATE/flowcontrol.zip")
        py_files=$FC_STATE/flowcontrol.zip${py_files:+,$py_files}
        ;;
esac
export PYSPARK_DRIVER_PYTHON=$FC_PYTHON

[[ $packages == *io.delta:delta-spark* ]] || jars=$(delta_jars)${jars:+,$jars}
[[ -z $jars ]] || options+=(--jars "$jars")
[[ -z $py_files ]] || options+=(--py-files "$py_files")

if [[ $deploy_mode == cluster ]]; then
    exec "$SPARK_HOME/bin/spark-submit" "${options[@]}" "$pipeline" "$@"
fi

# spark-submit makes --py-files importable before the pipeline's first line runs.
IFS=, read -r -a files <<<"$py_files"
for file in ${files[@]+"${files[@]}"}; do
    case $file in
        *.py) file=$(dirname "$file") ;;
    esac
    export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$file
done

# pyspark reads the options back with shlex: each in single quotes.
quoted() {
    local word escape="'\\''"
    for word in "$@"; do
        printf "'%s' " "${word//\'/$escape}"
    done
}
PYSPARK_SUBMIT_ARGS="$(quoted "${options[@]}")pyspark-shell"
export PYSPARK_SUBMIT_ARGS
exec "$FC_PYTHON" "$pipeline" "$@"
