# shellcheck shell=bash
# What spark-submit.sh and run-tests.sh share: find Python and Java, make the environment once.
#
# Sourced, never run; the sourcing script sets FC_ROOT to the checkout before. Works with bash 3.2.
# An environment is ready when its stamp says so. A stamp is written last, so what was interrupted
# is done again, and under a lock, so that two first starts at once do it once.

FC_VENV=${FLOWCONTROL_VENV:-$FC_ROOT/.venv}
case $FC_VENV in /*) ;; *) FC_VENV=$PWD/$FC_VENV ;; esac
FC_PYTHON=$FC_VENV/bin/python
FC_STATE=$FC_VENV/flowcontrol
FC_EXTRAS=spark,report,flights,virtual,tune
FC_LIGHT_EXTRAS=virtual,tune # all that the virtual clock needs: no Spark, which is 400 MB
FC_CONSTRAINTS=requirements/constraints.txt # scripts/matrix.sh installs other versions

# The artifact's name holds the Spark version; both belong to the pins of setup.cfg.
DELTA_PACKAGE=io.delta:delta-spark_4.2_2.13:4.4.0
DELTA_EXCLUDES=$(sed -n 's/^spark\.jars\.excludes  *//p' "$FC_ROOT/flowcontrol/spark/delta.conf")

die() {
    printf '%s: %s\n' "${0##*/}" "$1" >&2
    exit 1
}

# Say what will take longer than two seconds, before it begins.
say() {
    [[ -n ${FLOWCONTROL_QUIET:-} ]] || printf '%s: %s\n' "${0##*/}" "$1" >&2
}

# Print the first Python that is new enough and can make a virtual environment. Each is tried by
# running it: a name on the PATH may be a pyenv shim of a version that is not there.
find_python() {
    local name candidate names=(python3.11 python3.12 python3.13 python3.14 python3 python)
    local IFS=$'\n'
    [[ -z ${FLOWCONTROL_PYTHON:-} ]] || names=("$FLOWCONTROL_PYTHON")
    for name in "${names[@]}"; do
        for candidate in $(type -aP "$name"); do
            if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
                >/dev/null 2>&1; then
                printf '%s\n' "$candidate"
                return 0
            fi
        done
    done
    return 1
}

# Print the feature version (17) of the Java at $1; the release file saves starting a JVM.
java_version() {
    local path release line
    path=$(readlink -f "$1" 2>/dev/null || printf '%s' "$1")
    release=${path%/bin/java}/release
    if [[ -r $release ]] && line=$(grep -m1 '^JAVA_VERSION=' "$release"); then
        line=${line#JAVA_VERSION=\"}
    else
        line=$("$path" -version 2>&1 | sed -n 's/.*version "\([0-9.]*\).*/\1/p')
    fi
    line=${line%%[!0-9]*}
    printf '%s\n' "${line:-0}"
}

# Make sure that Spark will find a Java of 17 or newer, by JAVA_HOME or by the PATH.
require_java() {
    local java found=''
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(type -P java || true)"; do
        [[ -x $java ]] || continue
        found=$(java_version "$java")
        if ((found >= 17)); then
            [[ $java == "${JAVA_HOME:-}/bin/java" ]] || unset JAVA_HOME
            return 0
        fi
    done
    [[ -n $found ]] && found="only Java $found"
    die "Spark needs Java 17 or newer and ${found:-none} was found by JAVA_HOME or PATH: install one (Debian: apt-get install openjdk-17-jre-headless, macOS: brew\
 install openjdk@17), or use --clock virtual, which needs no Java"
}

# What the environment was made from: the extras in $1, the place, Python and the pinned versions.
environment_key() {
    printf '%s\n%s\n%s\n' "$1" "$FC_ROOT" "$("$FC_PYTHON" -V 2>&1)"
    (cd "$FC_ROOT" && cksum setup.cfg pyproject.toml "$FC_CONSTRAINTS" scripts/env.sh)
}

# Have what runs without Spark: the whole environment if it is there, else the light one.
ensure_light_environment() {
    if is_ready ready-run "$(environment_key "$FC_EXTRAS")"; then
        ensure_environment ready-run "$FC_EXTRAS"
    else
        ensure_environment ready-light "$FC_LIGHT_EXTRAS"
    fi
}

is_ready() { # STAMP KEY
    [[ -f $FC_STATE/$1 && "$(<"$FC_STATE/$1")" == "$2" ]]
}

mark_ready() { # STAMP KEY
    printf '%s\n' "$2" >"$FC_STATE/$1.new"
    mv "$FC_STATE/$1.new" "$FC_STATE/$1"
}

# Hold the lock until the script ends. Python takes it, for flock(1) is not on every system; the
# lock belongs to the open file that bash passes on, so it stays when that Python is gone.
lock_environment() { # PYTHON
    mkdir -p "${FC_VENV%/*}"
    exec 9>"$FC_VENV.lock"
    "$1" - "${0##*/}" <<'PYTHON'
import fcntl, sys
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    what = "waiting for another start to finish the set-up, usually a minute or two"
    print(f"{sys.argv[1]}: {what}", file=sys.stderr)
    fcntl.flock(9, fcntl.LOCK_EX)
PYTHON
}

make_venv() { # PYTHON
    "$FC_PYTHON" -m pip --version >/dev/null 2>&1 && return
    if [[ -e $FC_VENV && ! -e $FC_VENV/pyvenv.cfg && -n $(ls -A "$FC_VENV") ]]; then
        die "$FC_VENV is in the way: it is not a virtual environment; set FLOWCONTROL_VENV to another"
    fi
    "$1" -m venv --clear "$FC_VENV" || die "$1 could not make the virtual environment $FC_VENV"
}

# Have the environment, with the package and its extras $2. A start runs a dozen Pythons, Spark's
# workers among them. So that none compiles a module again where PYTHONDONTWRITEBYTECODE is set, what
# is compiled is kept in the environment then, once there is one, and not beside the sources.
ensure_environment() { # STAMP EXTRAS
    install_environment "$@"
    if [[ -n ${PYTHONDONTWRITEBYTECODE:-} ]]; then
        unset PYTHONDONTWRITEBYTECODE
        export PYTHONPYCACHEPREFIX=${PYTHONPYCACHEPREFIX:-$FC_STATE/pycache}
    fi
}

# Install the package and its extras $2, unless stamp $1 says that it was done.
install_environment() { # STAMP EXTRAS
    local python log=$FC_STATE/pip.log
    is_ready "$1" "$(environment_key "$2")" && return
    python=$(find_python) || die "Python 3.11 or newer with its venv module is needed and none was\
 found: install it (Debian: apt-get install python3 python3-venv) or set FLOWCONTROL_PYTHON"
    lock_environment "$python"
    if ! is_ready "$1" "$(environment_key "$2")"; then
        refuse_others
        say "installing Python packages into $FC_VENV, usually a minute or two, once"
        make_venv "$python"
        mkdir -p "$FC_STATE"
        rm -f "$FC_STATE/$1"
        # --no-compile: Python compiles a module when it is first imported, and most never are.
        (cd "$FC_ROOT" && DIST_EXTRA_CONFIG=$FC_ROOT/requirements/wheels.cfg \
            "$FC_PYTHON" -m pip install --disable-pip-version-check --no-input \
            --no-compile --constraint "$FC_CONSTRAINTS" --editable ".[$2]") \
            >"$log" 2>&1 ||
            die "pip failed: $(grep -m1 '^ERROR' "$log" || tail -n 1 "$log") (all of it: $log)"
        set_paths
        mark_ready "$1" "$(environment_key "$2")"
    fi
    exec 9>&-
}

# Refuse an environment of another checkout that is still there: each of the two would install itself
# again at every start, under the running programs of the other.
refuse_others() {
    local file owner
    for file in "$FC_VENV"/lib/python3*/site-packages/flowcontrol-checkout.pth; do
        [[ -r $file ]] || continue
        owner=$(<"$file")
        [[ $owner == "$FC_ROOT" || ! -f $owner/scripts/env.sh ]] && continue
        [[ $(cd "$FC_VENV" && pwd -P) == "$FC_ROOT"/* ]] && continue # a copy of a checkout, with its own
        die "$FC_VENV is the environment of the checkout $owner, whose programs may be running: set\
 FLOWCONTROL_VENV to another folder, or unset it to have .venv in this checkout"
    done
}

# Put the checkout itself on the path: Spark lists the modules there to find data sources
# (pyspark_flowcontrol), and an editable install is not seen in such a list. And take the zips off
# that Spark puts before everything: the same pyspark is beside them, where what is compiled is kept;
# from the zip each of Spark's Pythons compiles it again, 1 to 2 s of processor time.
set_paths() {
    local folder
    for folder in "$FC_VENV"/lib/python3*/site-packages; do
        [[ -d $folder ]] || continue
        printf '%s\n' "$FC_ROOT" >"$folder/flowcontrol-checkout.pth"
        printf '%s\n' 'import sys; sys.path[:] = [path for path in sys.path if not'\
' (path.startswith(sys.prefix) and "/site-packages/pyspark/" in path)]' \
            >"$folder/flowcontrol-pyspark.pth"
    done
}

# Where the environment's own Spark is; one that is installed elsewhere is another version.
find_spark() {
    local entries entry kept=''
    if [[ -n ${SPARK_HOME:-} && -n ${PYTHONPATH:-} ]]; then
        IFS=: read -r -a entries <<<"$PYTHONPATH"
        for entry in "${entries[@]}"; do
            case $entry in "$SPARK_HOME"/*) ;; *) kept+=${kept:+:}$entry ;; esac
        done
        export PYTHONPATH=$kept
    fi
    for SPARK_HOME in "$FC_VENV"/lib/python3*/site-packages/pyspark; do
        [[ -x $SPARK_HOME/bin/spark-submit ]] && export SPARK_HOME && return
    done
    die "$FC_VENV has no pyspark: remove $FC_STATE and start again"
}

jars_key() {
    printf '%s\n%s\n' "$DELTA_PACKAGE" "$DELTA_EXCLUDES"
}

# Fetch packages into IVY/jars by Spark's own resolver. If a download fails, again without Maven's
# own repository (~/.m2): Maven leaves POMs there without their JARs, which the resolver then misses.
resolve_jars() { # IVY LOG WHAT PACKAGES EXCLUDES
    local options
    : >"$FC_STATE/nothing.py"
    for options in -Dfirst=1 "-Duser.home=$1"; do
        rm -rf "$1/cache"
        PYSPARK_PYTHON=$FC_PYTHON "$SPARK_HOME/bin/spark-submit" --master 'local[1]' \
            --conf "spark.jars.ivy=$1" --packages "$4" --exclude-packages "$5" \
            --driver-java-options "$options" "$FC_STATE/nothing.py" >"$2" 2>&1 && return
        grep -q 'download failed' "$2" || break
    done
    die "$3 could not be fetched: $(grep -m1 -E 'unresolved|Error|Exception' "$2" ||
        tail -n 1 "$2") (all of it: $2)"
}

# Fetch Delta's JARs once, by Spark's own resolver, into a folder of the environment: with
# --packages every start would resolve them again, in a cache under the JVM's idea of home.
ensure_jars() {
    local log=$FC_STATE/jars.log ivy=$FC_STATE/ivy
    is_ready ready-jars "$(jars_key)" && return
    lock_environment "$FC_PYTHON"
    if ! is_ready ready-jars "$(jars_key)"; then
        say "fetching Delta's JARs, usually 10 s to a minute, once"
        rm -rf "$FC_STATE/jars" "$ivy"
        resolve_jars "$ivy" "$log" "Delta's JARs" "$DELTA_PACKAGE" "$DELTA_EXCLUDES"
        mv "$ivy/jars" "$FC_STATE/jars"
        rm -rf "$ivy"
        mark_ready ready-jars "$(jars_key)"
    fi
    exec 9>&-
}

# Print the JARs as Spark's --jars wants them.
delta_jars() {
    local files=("$FC_STATE"/jars/*.jar)
    local IFS=,
    printf '%s\n' "${files[*]}"
}
