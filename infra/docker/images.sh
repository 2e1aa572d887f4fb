#!/usr/bin/env bash
# Builds the images towpath-services:TAG and towpath-site:TAG (TAG is `local` unless it is given).
#
# Their base is the image named in BASE (and SITE_BASE, one with Java and Mosquitto in it); else the public slim image of Python;
# else, where no registry can be reached, one that base.sh makes out of Debian packages.
set -euo pipefail
cd "$(dirname "$0")"

readonly tag=${1:-local}
readonly context=$(cd ../.. && pwd)/build/docker
readonly PULL_S=60

say() { printf 'images: %s\n' "$*" >&2; }

# Two builds at a time would make the same wheels.
mkdir -p "$context"
exec 9>"$context/lock"
flock 9

docker version >/dev/null || { say 'no Docker daemon answers: see daemon.sh'; exit 1; }
./wheels.sh "$context"

# Wheels are for one version of Python.
readonly ask='import sys; print("%d.%d" % sys.version_info[:2])'
wanted=$("${PYTHON:-../../.venv/bin/python}" -c "$ask")
if [ -z "${BASE:-}" ]; then
    public=python:$wanted-slim-bookworm
    if ! ./base.sh --there \
        && { docker image inspect "$public" || timeout "$PULL_S" docker pull "$public"; } >/dev/null 2>&1; then
        BASE=$public
    else
        ./base.sh
        BASE=towpath-base:services SITE_BASE=towpath-base:site
    fi
fi

found=$(docker run --rm --network none "$BASE" python3 -c "$ask")
[ "$found" = "$wanted" ] || {
    say "$BASE has Python $found, the wheels are for $wanted: name a base with $wanted in BASE, or another python in PYTHON"
    exit 1
}

build() {
    say "building towpath-$1:$tag"
    local said
    # Where BuildKit is missing, the classic builder warns of itself: that is no news.
    said=$(docker build --quiet --target "$1" --tag "towpath-$1:$tag" --file Dockerfile \
        --build-arg "BASE=$BASE" --build-arg "SITE_BASE=${SITE_BASE:-$BASE}" "$context" 2>&1) \
        || { printf '%s\n' "$said" >&2; exit 1; }
}

build services
build site
