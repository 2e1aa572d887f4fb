#!/usr/bin/env bash
# Prepares a fresh clone: .venv with the project and its development tools, Java 17 or later for Spark,
# Mosquitto, for sites and tests that use it as broker, and Chromium, for the tests of the live page.
# Installs system packages only as root on a machine with apt-get; elsewhere it says what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly OLDEST_JAVA=17

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

can_install() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; }

apt_install() {
    say "installing $* with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Prints the newest interpreter on the path that is recent enough; a name alone proves nothing (pyenv's shims).
find_python() {
    local name
    for name in python3.13 python3.12 python3.11 python3; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    return 1
}

make_environment() {
    local python=$1
    if .venv/bin/python -m pip --version >/dev/null 2>&1 \
        && .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        return
    fi
    # Debian ships venv and ensurepip in a package of their own.
    if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
        local package
        package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
        can_install || fail "Python's venv module is missing: install $package (or python3-venv) and run again"
        apt_install "$package" || apt_install python3-venv
    fi
    say "making .venv with $python"
    "$python" -m venv --clear .venv
}

java_version() {
    local java=java
    [ -z "${JAVA_HOME:-}" ] || java="$JAVA_HOME/bin/java"
    "$java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1
}

ensure_java() {
    local version
    version=$(java_version || true)
    [ "${version:-0}" -lt "$OLDEST_JAVA" ] || return 0
    can_install || fail "Java $OLDEST_JAVA or later is missing (found: ${version:-none}): install openjdk-17-jre-headless and run again"
    apt_install openjdk-17-jre-headless || apt_install default-jre-headless
    version=$(java_version || true)
    [ "${version:-0}" -ge "$OLDEST_JAVA" ] || fail "java is still version ${version:-none}: is JAVA_HOME set to an old one?"
}

# Only the program is wanted: the service of the package would take port 1883.
ensure_mosquitto() {
    PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v mosquitto >/dev/null && return
    if ! can_install; then
        say "mosquitto is missing: install the package mosquitto, 2.0 or later, for sites with that broker and the tests"
        return
    fi
    apt_install mosquitto
    if [ -d /run/systemd/system ]; then
        systemctl disable --now --quiet mosquitto
    else
        service mosquitto stop >/dev/null 2>&1 || true
    fi
}

# For the tests of the live page, and for nothing else.
ensure_chromium() {
    command -v chromium >/dev/null && return
    if ! can_install; then
        say "chromium is missing: install the package chromium for the tests of the live page"
        return
    fi
    apt_install chromium || say "chromium cannot be installed: the tests of the live page will be skipped"
}

python=$(find_python) || {
    can_install || fail "Python 3.11, 3.12 or 3.13 is missing: install it and run again"
    apt_install python3 python3-venv
    python=$(find_python) || fail "this system's python3 is not 3.11, 3.12 or 3.13: install one of them and run again"
}
make_environment "$python"
ensure_java
ensure_mosquitto
ensure_chromium
say "installing Python packages"
pip() { .venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }
# The versions that are tested, and no file with another hash.
pip install --require-hashes --requirement requirements.lock
pip install --no-deps --no-build-isolation -e .
say "making an archive of the classes that engines load"
.venv/bin/python -m towpath.engine.class_archive >&2 || say "there is none: engines take some seconds more to start"
say "ready: .venv/bin/towpath --help"
