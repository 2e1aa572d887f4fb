#!/usr/bin/env bash
# Makes base images out of Debian packages, for machines that reach no image registry:
#   towpath-base:services   Debian and its Python
#   towpath-base:site       the same with Java and Mosquitto
# Images that are there, with the same packages, are kept; `--there` only tells whether they are. Needs root and debootstrap; DEBIAN_MIRROR and DEBIAN_SUITE may name others than
# deb.debian.org and the suite of this machine, whose Python the wheels are for.
set -euo pipefail

readonly mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
readonly site_packages=(default-jre-headless mosquitto)
readonly suite=${DEBIAN_SUITE:-$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME" || echo bookworm)}

say() { printf 'base: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
services_there() { docker image inspect towpath-base:services >/dev/null 2>&1; }
site_there() {
    [ "$(docker image inspect --format '{{index .Config.Labels "towpath.packages"}}' towpath-base:site 2>/dev/null)" \
        = "${site_packages[*]}" ]
}

# Imports what is in the root, without what nobody reads in a container, as an image with these packages on top.
import() {
    local tag=$1
    shift
    tar --create --directory "$root" --numeric-owner --one-file-system \
        --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/info/*' \
        --exclude='./usr/share/locale/*' --exclude='./usr/share/lintian/*' --exclude='./var/cache/apt/*' \
        --exclude='./var/cache/debconf/*' --exclude='./var/lib/apt/lists/*' --exclude='./var/log/*' \
        --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' . \
        | docker import --change 'CMD ["bash"]' --change 'ENV LANG=C.UTF-8' --change "LABEL towpath.packages=\"$*\"" \
            - "towpath-base:$tag" >/dev/null
    say "made towpath-base:$tag"
}

# In a namespace of its own, so that no mount outlives us; Java's package wants /proc. No package starts a service.
install_in_root() {
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    unshare --mount -- bash -c '
        set -e
        root=$1; shift
        mount -t proc proc "$root/proc"
        export DEBIAN_FRONTEND=noninteractive
        apt() { chroot "$root" apt-get -qq -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 "$@" >/dev/null; }
        apt update
        apt install --yes --no-install-recommends "$@"
    ' - "$root" "$@"
}

if services_there && site_there; then
    exit 0
fi
[ "${1:-}" != --there ] || exit 1
[ "$(id -u)" -eq 0 ] || fail 'only root can make a base image: be root, or name one in BASE (see images.sh)'
PATH="$PATH:/usr/sbin:/sbin" command -v debootstrap >/dev/null || fail 'debootstrap is missing: install it'
root=$(mktemp -d "${TMPDIR:-/var/tmp}/towpath-base.XXXXXX")
trap 'rm -rf --one-file-system "$root" "$root.log"' EXIT
say "fetching Debian $suite"
PATH="$PATH:/usr/sbin:/sbin" debootstrap --variant=minbase --include=python3,ca-certificates "$suite" "$root" "$mirror" \
    >"$root.log" 2>&1 || fail "debootstrap failed: $(tail -n 3 "$root.log" | tr '\n' ' ')"
services_there || import services
say "adding ${site_packages[*]}"
install_in_root "${site_packages[@]}"
import site "${site_packages[@]}"
