# shellcheck shell=bash
# Spark's launcher sources this file, in its own process, just before it becomes the JVM.

# Spark always asks Java for its vector module, and Java always answers with this line.
exec 2> >(exec grep --line-buffered -v '^WARNING: Using incubator modules: jdk.incubator.vector$' >&2)
