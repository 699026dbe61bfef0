# shellcheck shell=bash
# The JARs of Kafka's broker and of Spark's Kafka connector; sourced by kafka.sh after env.sh.
#
# As Delta's: fetched once, by Spark's own resolver, into a folder of the environment.

KAFKA_VERSION=4.2.0
KAFKA_PACKAGES=org.apache.kafka:kafka_2.13:$KAFKA_VERSION,org.apache.kafka:kafka-tools:$KAFKA_VERSION
# Logging is Spark's, see broker_class_path; Kafka Connect and its web server are not started.
KAFKA_EXCLUDES='org.slf4j:*,org.apache.logging.log4j:*,org.apache.kafka:connect-*'

# The version is that of pyspark in setup.cfg. A client of 3.9 talks to any broker from 2.1 on.
CONNECTOR_PACKAGE=org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0
# The connector's part for delegation tokens is the newest that can be resolved. The connector calls
# eight methods of it, the same in both; with a broker that asks for delegation tokens, take
# --packages and a mirror that has the connector's own.
TOKENS_PACKAGE=org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0
# What Spark ships itself.
CONNECTOR_EXCLUDES='org.apache.spark:spark-token-provider-*,org.scala-lang*:*,org.slf4j:*'
CONNECTOR_EXCLUDES+=',org.xerial.*:*,at.yawk.lz4:*,com.google.*:*,com.fasterxml.*:*'
TOKENS_EXCLUDES='org.apache.hadoop:*,org.apache.kafka:*,org.slf4j:*,org.xerial.*:*'

# Fetch into the folder $1 of the environment what the pairs "packages excludes" after it name.
ensure_kafka_jars() { # FOLDER PACKAGES EXCLUDES [PACKAGES EXCLUDES]
    local folder=$1 key log=$FC_STATE/$1.log ivy=$FC_STATE/$1.ivy
    shift
    key=$(printf '%s\n' "$@")
    is_ready "ready-$folder" "$key" && return
    lock_environment "$FC_PYTHON"
    if ! is_ready "ready-$folder" "$key"; then
        say "fetching the JARs of $folder (once)"
        rm -rf "${FC_STATE:?}/$folder" "$ivy"
        while (($# > 0)); do
            resolve_jars "$ivy" "$log" "the JARs of $folder" "$1" "$2"
            shift 2
        done
        mv "$ivy/jars" "$FC_STATE/$folder"
        rm -rf "$ivy"
        mark_ready "ready-$folder" "$key"
    fi
    exec 9>&-
}

ensure_broker_jars() {
    ensure_kafka_jars kafka-broker "$KAFKA_PACKAGES" "$KAFKA_EXCLUDES"
}

ensure_connector_jars() {
    ensure_kafka_jars kafka-connector "$CONNECTOR_PACKAGE" "$CONNECTOR_EXCLUDES" \
        "$TOKENS_PACKAGE" "$TOKENS_EXCLUDES"
}

# Scala and logging come from Spark: its resolver leaves Scala out, and Kafka names no logger.
broker_class_path() {
    local jars=("$FC_ROOT/scripts/kafka-conf" "$FC_STATE/kafka-broker/*")
    jars+=("$SPARK_HOME"/jars/scala-library-*.jar "$SPARK_HOME"/jars/slf4j-api-*.jar)
    jars+=("$SPARK_HOME"/jars/log4j-{api,core,slf4j2-impl}-*.jar)
    local IFS=:
    printf '%s\n' "${jars[*]}"
}

# Print the connector's JARs as Spark's --jars wants them.
connector_jars() {
    local files=("$FC_STATE"/kafka-connector/*.jar)
    local IFS=,
    printf '%s\n' "${files[*]}"
}
