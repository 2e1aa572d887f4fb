#!/usr/bin/env bash
# A Docker daemon for this machine: the one that answers already, else one of our own.
#
#   eval "$(infra/docker/daemon.sh start DIR)"   # prints `export DOCKER_HOST=…`, and that it was started, if it was
#   infra/docker/daemon.sh stop DIR              # ends the daemon that `start DIR` started, and no other
#
# Our own keeps everything in DIR: socket, pid file, log, images (which stay when it is stopped). Missing packages
# are installed as root on a machine with apt-get; elsewhere it says what is missing. Where a daemon answers, only
# the compose command is asked for, and anybody may.
set -euo pipefail

readonly READY_S=60 STOP_S=30

say() { printf 'docker: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
usage() { fail 'usage: daemon.sh start|stop DIR'; }

answers() { DOCKER_HOST=$1 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# The daemon that is there already, if one is: where the environment says, or at the usual socket.
found_host() {
    command -v docker >/dev/null || return 1
    if [ -n "${DOCKER_HOST:-}" ]; then
        ! answers "$DOCKER_HOST" || echo "$DOCKER_HOST"
    else
        local socket
        for socket in /var/run/docker.sock "${XDG_RUNTIME_DIR:-/nowhere}/docker.sock"; do
            [ -S "$socket" ] && answers "unix://$socket" && echo "unix://$socket" && return
        done
    fi
}

# Prints the package of the compose command, if that is missing.
missing_compose() {
    docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null || echo docker-compose
}

# Prints the packages that what is missing comes in, of all that a daemon of our own takes.
missing_packages() {
    local program package
    while read -r program package; do
        PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null || echo "$package"
    done <<'END'
dockerd docker.io
docker docker.io
iptables iptables
debootstrap debootstrap
END
    missing_compose
}

# Without an init system a package would start its service by itself, with nobody to stop it.
apt_install() {
    local policy=/usr/sbin/policy-rc.d
    [ -d /run/systemd/system ] || [ -e "$policy" ] || {
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
        trap 'rm -f /usr/sbin/policy-rc.d' RETURN
    }
    say "installing $* with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Sees to what is missing, as the named function prints it.
ensure() {
    local packages
    packages=$("$1" | sort -u)
    [ -n "$packages" ] || return 0
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null \
        || fail "missing, please install: $(echo $packages)"
    # shellcheck disable=SC2086
    apt_install $packages
}

# The process that `start` started in this directory, if it lives.
own_pid() {
    local pid
    pid=$(cat "$1/docker.pid" 2>/dev/null) || return 1
    tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "--host unix://$1/docker.sock" && echo "$pid"
}

launch() {
    local directory=$1
    [ "$(id -u)" -eq 0 ] || fail 'no daemon answers, and only root can start one: set DOCKER_HOST, or be root'
    rm -f "$directory/docker.pid" "$directory/docker.sock"
    PATH="$PATH:/usr/sbin:/sbin" setsid dockerd \
        --host "unix://$directory/docker.sock" --data-root "$directory/docker" \
        --exec-root "$directory/docker-run" --pidfile "$directory/docker.pid" \
        </dev/null >"$directory/docker.log" 2>&1 &
    # Whatever ends us before it answers, it does not stay behind.
    trap "end $!" EXIT
}

# Ends a daemon, with all that it started.
end() {
    local pid=$1 deadline=$((SECONDS + STOP_S))
    kill "$pid" 2>/dev/null || return 0
    while kill -0 "$pid" 2>/dev/null; do
        [ $SECONDS -lt $deadline ] || { kill -KILL "$pid" 2>/dev/null; break; }
        sleep 0.2
    done
}

await() {
    local directory=$1 end=$((SECONDS + READY_S))
    until answers "unix://$directory/docker.sock"; do
        [ $SECONDS -lt $end ] && kill -0 $! 2>/dev/null \
            || fail "the daemon does not answer; its log ends with: $(tail -n 3 "$directory/docker.log" | tr '\n' ' ')"
        sleep 0.2
    done
    trap - EXIT
}

start() {
    local directory host started=
    host=$(found_host || true)
    if [ -n "$host" ]; then
        ensure missing_compose
        echo "export DOCKER_HOST=$host"
        return
    fi
    mkdir -p "$1" && directory=$(cd "$1" && pwd)
    [ ${#directory} -le 90 ] || fail "the path $directory is too long for a socket: give a shorter one"
    ensure missing_packages
    # Installing may have started the system's own.
    host=$(found_host || true)
    if [ -z "$host" ]; then
        if ! own_pid "$directory" >/dev/null; then
            launch "$directory"
            await "$directory"
            started=yes
        fi
        host="unix://$directory/docker.sock"
    fi
    echo "export DOCKER_HOST=$host"
    [ -z "$started" ] || echo 'export TOWPATH_DAEMON_STARTED=yes'
}

stop() {
    local directory pid
    directory=$(cd "$1" 2>/dev/null && pwd) || return 0
    pid=$(own_pid "$directory") || return 0
    end "$pid"
    rm -f "$directory/docker.pid" "$directory/docker.sock"
}

[ $# -eq 2 ] || usage
case $1 in
    start) start "$2" ;;
    stop) stop "$2" ;;
    *) usage ;;
esac
