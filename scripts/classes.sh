# shellcheck shell=bash
# An archive of the classes that Spark loads, which takes some 5 s off a start on two cores.
#
# Sourced by spark-submit.sh. The first run of a job on a local master writes it when its JVM ends,
# which nobody waits for; the runs after it read it (Java's class data sharing, JEP 350). Java
# itself checks that Java and all JARs are those that it was made from, and goes on without one that
# does not fit; but it dies of one that is cut short. So each is tried once, and known by its size.

# Print the Java that Spark will find.
found_java() {
    printf '%s\n' "${JAVA_HOME:+$JAVA_HOME/bin/}java"
}

# Print what an archive is good for, as a name: one Java, one environment.
classes_key() {
    local java key
    java=$(readlink -f "$(type -P "$(found_java)")")
    key=$({
        printf '%s\n' "$java"
        cat "${java%/bin/java}/release" "$FC_STATE"/ready-{run,jars}
    } 2>/dev/null | cksum) || true # not every Java says its release
    printf '%s\n' "${key%% *}"
}

# Is the archive $1 whole? Java writes the first bytes last: one that begins with a zero is not.
is_whole() {
    local first=''
    [[ -r $1 ]] && IFS='' LC_ALL=C read -r -d '' -n 1 first <"$1" && [[ -n $first ]] || return
    [[ -r $1.size && $(<"$1.size") == "$(wc -c <"$1")" ]] && return
    "$(found_java)" "-XX:SharedArchiveFile=$1" -XX:+VerifySharedSpaces -XX:ErrorFile=/dev/null \
        -version >/dev/null 2>&1 && wc -c <"$1" >"$1.size.$$" && mv "$1.size.$$" "$1.size"
}

# Add Java's options for the archive to those of the driver, unless the user has set any.
use_classes() {
    local folder=$FC_STATE/shared-classes archive option
    # Java's options are split at spaces and quotes, and settings of the user's stay on the class path.
    [[ $folder$FC_ROOT != *[[:space:]\'\"\\,]* && $SPARK_CONF_DIR == "$FC_ROOT/flowcontrol/spark/conf" ]] ||
        return 0
    is_set spark.driver.extraJavaOptions && return
    mkdir -p "$folder/conf" 2>/dev/null && [[ -w $folder ]] || return 0
    archive=$folder/$(classes_key).jsa
    if is_whole "$archive"; then
        option=-XX:SharedArchiveFile=$archive
    else
        rm -f "$folder"/*.jsa "$folder"/*.size # of another Java, of an environment before this one
        option=-XX:ArchiveClassesAtExit=$archive
    fi
    # A folder with files on the class path forbids an archive: spark-env.sh names an empty one in place
    # of that with the log settings.
    export FLOWCONTROL_EMPTY_CONF=$folder/conf
    option+=" -Xlog:cds=off -Xlog:cds+dynamic=off -Dlog4j2.configurationFile=$SPARK_CONF_DIR/log4j2.properties"
    options+=(--conf "spark.driver.extraJavaOptions=$option")
}
