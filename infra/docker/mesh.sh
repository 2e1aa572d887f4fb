#!/usr/bin/env bash
# A mesh of containers from this clone, whatever the machine has: starts a Docker daemon where none answers.
#
#   mesh.sh images          builds the images, and makes the secrets of docker-compose.yml
#   mesh.sh up              the same, and starts what docker-compose.yml describes
#   mesh.sh down            takes that away, volumes too
#   mesh.sh demo            moves the main job between containers, kills one, judges every result
#   mesh.sh with COMMAND…   runs a command with a daemon and the images
#
# A daemon of our own keeps images in ~/.cache/towpath/docker (or in TOWPATH_DOCKER). It goes with what needed it.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly own=${TOWPATH_DOCKER:-${XDG_CACHE_HOME:-$HOME/.cache}/towpath/docker}
readonly mesh=.towpath/compose
started=

start_daemon() {
    local said
    said=$(infra/docker/daemon.sh start "$own")
    eval "$said"
    [ -z "${TOWPATH_DAEMON_STARTED:-}" ] || started=yes
}

stop_started() { [ -z "$started" ] || infra/docker/daemon.sh stop "$own"; }

compose() {
    if docker compose version >/dev/null 2>&1; then docker compose "$@"; else docker-compose "$@"; fi
}

files() { .venv/bin/towpath --home "$mesh" compose infra/docker/topology.yaml >/dev/null; }

images() {
    infra/docker/images.sh
    files
}

case ${1:-} in
    images)
        trap stop_started EXIT
        start_daemon
        images
        ;;
    up)
        start_daemon
        images
        compose up --detach
        echo "export DOCKER_HOST=$DOCKER_HOST   # for docker"
        echo ".venv/bin/towpath --home $mesh sites"
        ;;
    down)
        start_daemon
        # Compose wants to see them also to take everything away, and `make clean` deletes them.
        files
        compose down --volumes
        infra/docker/daemon.sh stop "$own"
        ;;
    demo)
        shift
        trap stop_started EXIT
        start_daemon
        infra/docker/images.sh
        .venv/bin/towpath demo-containers "$@"
        ;;
    with)
        shift
        trap stop_started EXIT
        start_daemon
        infra/docker/images.sh
        "$@"
        ;;
    *)
        echo 'usage: mesh.sh images|up|down|demo|with COMMAND…' >&2
        exit 2
        ;;
esac
