#!/usr/bin/env bash
# Prints the home of a Java that Spark can use (17 or newer). Installs one if it can: as root on Debian and its derivatives.
set -euo pipefail

needed=17

# Prints the home of a java command, if it is new enough.
home_if_usable() {
    local java=$1 version
    [ -x "$java" ] || return 1
    version=$("$java" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1)
    [ -n "$version" ] && [ "$version" -ge "$needed" ] || return 1
    dirname "$(dirname "$(readlink -f "$java")")"
}

find_java() {
    local java
    if [ -n "${JAVA_HOME:-}" ] && home_if_usable "$JAVA_HOME/bin/java"; then return; fi
    if java=$(command -v java) && home_if_usable "$java"; then return; fi
    for java in /usr/lib/jvm/*/bin/java /Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java /opt/homebrew/opt/openjdk*/bin/java; do
        if home_if_usable "$java"; then return; fi
    done
    return 1
}

install_java() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    local log package
    log=$(mktemp)
    echo "Java $needed or newer was not found; installing it with apt-get ..." >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update >"$log" 2>&1 || true # a mirror that fails may not be the one with Java
    # Newer Debian releases have Java 21 but not 17.
    for package in openjdk-17-jre-headless openjdk-21-jre-headless; do
        if apt-get install -y --no-install-recommends "$package" >>"$log" 2>&1; then
            rm -f "$log"
            return
        fi
    done
    tail -n 5 "$log" >&2
    rm -f "$log"
    return 1
}

if find_java; then exit; fi
if install_java && find_java; then exit; fi
echo "Spark needs Java $needed or newer, which was not found: install the package openjdk-17-jre-headless (or set JAVA_HOME)." >&2
exit 1
