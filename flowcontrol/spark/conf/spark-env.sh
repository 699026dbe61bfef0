# shellcheck shell=bash
# Spark's launcher sources this file, in its own process, just before it becomes the JVM.

# Spark always asks Java for its vector module, and Java always answers with this line.
exec 2> >(exec grep --line-buffered -v '^WARNING: Using incubator modules: jdk.incubator.vector$' >&2)

# An archive of classes asks for an empty folder of settings on the class path (scripts/classes.sh).
[[ -z ${FLOWCONTROL_EMPTY_CONF:-} ]] || export SPARK_CONF_DIR=$FLOWCONTROL_EMPTY_CONF
