#!/usr/bin/env bash
# A Kafka broker on this machine, for trying a pipeline out: KRaft, one node, loopback only.
#
# The broker inherits the lock on the folder's file "lock" from the script that starts it, so the
# lock is taken exactly as long as the broker lives: no other process is ever taken for it.
set -euo pipefail

FC_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/env.sh
source "$FC_ROOT/scripts/env.sh"
# shellcheck source=scripts/kafka-jars.sh
source "$FC_ROOT/scripts/kafka-jars.sh"

usage() {
    cat <<'USAGE'
usage: scripts/kafka.sh start [--port PORT] [--dir DIR]
       scripts/kafka.sh topic NAME PARTITIONS [--dir DIR]
       scripts/kafka.sh produce NAME [--dir DIR]
       scripts/kafka.sh stop [--dir DIR]
       scripts/kafka.sh jars

start    start a broker on 127.0.0.1, wait until it answers, print its address
topic    make a topic
produce  write standard input to a topic, a line a message: its key, a tab, its value
stop     end the broker; what it holds stays in DIR for the next start
jars     print the JARs of Spark's Kafka connector, for spark-submit's --jars

PORT is a free one unless given. DIR is where the broker keeps everything (default: out/kafka).
The first use fetches the JARs, and makes the environment as ./spark-submit.sh does.
USAGE
}

# 16 bytes in base64. It never changes, so a folder that was half formatted is formatted again.
CLUSTER_ID=Zmxvd2NvbnRyb2wta2FmaQ
START_LIMIT_S=120 # a broker takes about 4 s to answer; this is for a machine that is very busy
STOP_LIMIT_S=60   # and half a second to end
SEND_LIMIT_MS=10000

dir=out/kafka port=0 words=()
while (($# > 0)); do
    case $1 in
        -h | --help) usage && exit 0 ;;
        --dir | --port)
            (($# > 1)) || die "$1 needs a value"
            [[ $1 == --dir ]] && dir=$2 || port=$2
            shift
            ;;
        --dir=*) dir=${1#*=} ;;
        --port=*) port=${1#*=} ;;
        -*) die "there is no option $1: see --help" ;;
        *) words+=("$1") ;;
    esac
    shift
done
if ((${#words[@]} == 0)); then
    usage >&2
    exit 1
fi

take_words() { # NAMES: what must stand after the command
    local names=("$@")
    ((${#words[@]} == ${#names[@]} + 1)) ||
        die "after ${words[0]} stand ${names[*]:-options only}: see --help"
}

# 3 is its no; anything else is no answer, and least of all that a broker runs.
port_tool() {
    local status=0
    "$FC_PYTHON" "$FC_ROOT/scripts/kafka-port.py" "$@" || status=$?
    ((status == 0 || status == 3)) || die "$FC_PYTHON could not run scripts/kafka-port.py"
    return "$status"
}

prepare() {
    (require_java) 2>/dev/null || die "Kafka needs Java 17 or newer and none was found by JAVA_HOME\
 or PATH: install one (Debian: apt-get install openjdk-17-jre-headless, macOS: brew install\
 openjdk@17)"
    require_java
    ensure_environment ready-run "$FC_EXTRAS"
    find_spark
}

prepare_broker() {
    prepare
    ensure_broker_jars
    java=("${JAVA_HOME:+$JAVA_HOME/bin/}java" -XX:+UseSerialGC -cp "$(broker_class_path)")
}

# A command-line tool of Kafka's, with standard input; of its errors the first is printed.
kafka_tool() { # CLASS ARGUMENTS
    local log=$dir/tool.log
    "${java[@]}" -Xmx128m -XX:TieredStopAtLevel=1 "$@" >"$log" 2>&1 ||
        die "$(grep -m1 -E 'Error|Exception|ERROR' "$log" || tail -n 1 "$log") (all of it: $log)"
}

# Take the folder's lock; a process that holds it already is the broker.
lock_folder() {
    exec 8>>"$dir/lock"
    port_tool lock
}

claim_folder() {
    lock_folder || die "a broker runs in $dir already: $(command_line stop) ends it; --dir gives\
 another folder"
}

command_line() { # COMMAND: as it can be typed
    printf 'scripts/kafka.sh %s --dir %q' "$1" "$dir"
}

require_broker() {
    if [[ ! -f $dir/lock ]] || lock_folder || [[ ! -f $dir/address ]]; then
        die "no broker runs in $dir: $(command_line start) starts one"
    fi
}

write_settings() { # PORT CONTROLLER-PORT
    cat "$FC_ROOT/scripts/kafka-conf/server.properties"
    printf '%s\n' "log.dirs=$dir/data" "controller.quorum.voters=1@127.0.0.1:$2" \
        "listeners=PLAINTEXT://127.0.0.1:$1,CONTROLLER://127.0.0.1:$2" \
        "advertised.listeners=PLAINTEXT://127.0.0.1:$1"
}

wait_for() { # PID PORT
    local until=$((SECONDS + START_LIMIT_S)) log=$dir/broker.log
    until port_tool answers "$2"; do
        kill -0 "$1" 2>/dev/null ||
            die "the broker ended: $(grep -m1 -E ' (FATAL|ERROR) |rror:|Exception' "$log" ||
                tail -n 1 "$log") (all of it: $log)"
        ((SECONDS < until)) || die "the broker does not answer after $START_LIMIT_S s: see $log"
        sleep 0.1
    done
}

start() {
    local ports pid
    take_words
    if [[ ! $port =~ ^[0-9]{1,5}$ ]] || ((10#$port > 65535)); then
        die "--port $port is not a port: give a number up to 65535, or none for a free one"
    fi
    [[ $dir != *[,\\]* ]] || die "--dir $dir: Kafka takes no folder with a comma or a backslash"
    prepare_broker
    [[ ! -d $dir ]] || claim_folder
    ports=$(port_tool ports "$port") || die "port $port of 127.0.0.1 cannot be had: give another\
 --port, or none for a free one"
    mkdir -p "$dir" || die "the folder $dir cannot be made"
    dir=$(cd "$dir" && pwd -P)
    claim_folder
    rm -f "$dir/pid" "$dir/address"
    # shellcheck disable=SC2086 # two ports, two words
    write_settings $ports >"$dir/server.properties"
    [[ -f $dir/data/meta.properties ]] || kafka_tool kafka.tools.StorageTool format \
        --ignore-formatted --cluster-id "$CLUSTER_ID" --config "$dir/server.properties"
    # Neither Ctrl-C nor a terminal that is closed ends it, for it belongs to no terminal.
    (trap '' INT HUP && exec "${java[@]}" -Xmx256m kafka.Kafka "$dir/server.properties") \
        </dev/null >"$dir/broker.log" 2>&1 &
    pid=$!
    # shellcheck disable=SC2064 # the pid of now
    trap "kill $pid 2>/dev/null" EXIT
    printf '%s\n' "$pid" >"$dir/pid"
    wait_for "$pid" "${ports% *}"
    printf '127.0.0.1:%s\n' "${ports% *}" >"$dir/address"
    trap - EXIT
    cat "$dir/address"
}

topic() {
    take_words NAME PARTITIONS
    [[ ${words[2]} =~ ^[1-9][0-9]{0,4}$ ]] ||
        die "a topic has 1 to 99999 partitions, not ${words[2]}"
    require_broker
    prepare_broker
    kafka_tool org.apache.kafka.tools.TopicCommand --bootstrap-server "$(<"$dir/address")" \
        --create --topic "${words[1]}" --partitions "${words[2]}" --replication-factor 1
}

produce() {
    take_words NAME
    require_broker
    prepare_broker
    kafka_tool org.apache.kafka.tools.ConsoleProducer --bootstrap-server "$(<"$dir/address")" \
        --topic "${words[1]}" --reader-property parse.key=true \
        --command-property "max.block.ms=$SEND_LIMIT_MS"
    # It ends with status 0 whatever became of the messages.
    ! grep -q ' ERROR ' "$dir/tool.log" ||
        die "messages were lost: $(grep -m1 -A1 ' ERROR ' "$dir/tool.log" | tail -n 1) (all of it:\
 $dir/tool.log)"
}

stop() {
    local pid until=$((SECONDS + STOP_LIMIT_S))
    take_words
    if [[ ! -f $dir/lock ]] || lock_folder; then
        say "no broker runs in $dir"
        return
    fi
    pid=$(cat "$dir/pid" 2>/dev/null) || die "the broker in $dir is only starting: try again"
    kill "$pid" || true
    until port_tool lock; do
        ((SECONDS < until)) || kill -9 "$pid"
        sleep 0.1
    done
    rm -f "$dir/pid" "$dir/address"
}

jars() {
    take_words
    prepare
    ensure_connector_jars
    connector_jars
}

case ${words[0]} in
    start | topic | produce | stop | jars) "${words[0]}" ;;
    *) die "there is no command ${words[0]}: see --help" ;;
esac
