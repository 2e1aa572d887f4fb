#!/usr/bin/env bash
# Makes base images out of Debian packages, for machines that reach no image registry:
#   towpath-base:services   Debian and its Python
#   towpath-base:site       the same with Java
# Images that are there are kept. Needs root and debootstrap; DEBIAN_MIRROR and DEBIAN_SUITE may name others than
# deb.debian.org and the suite of this machine, whose Python the wheels are for.
set -euo pipefail

readonly mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
readonly suite=${DEBIAN_SUITE:-$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME" || echo bookworm)}

say() { printf 'base: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
there() { docker image inspect "towpath-base:$1" >/dev/null 2>&1; }

# What nobody reads in a container.
import() {
    tar --create --directory "$root" --numeric-owner --one-file-system \
        --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/info/*' \
        --exclude='./usr/share/locale/*' --exclude='./usr/share/lintian/*' --exclude='./var/cache/apt/*' \
        --exclude='./var/cache/debconf/*' --exclude='./var/lib/apt/lists/*' --exclude='./var/log/*' \
        --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' . \
        | docker import --change 'CMD ["bash"]' --change 'ENV LANG=C.UTF-8' - "towpath-base:$1" >/dev/null
    say "made towpath-base:$1"
}

# In a namespace of its own, so that no mount outlives us; Java's package wants /proc.
install_in_root() {
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

if there services && there site; then
    exit 0
fi
[ "$(id -u)" -eq 0 ] || fail 'only root can make a base image: be root, or name one in BASE (see images.sh)'
PATH="$PATH:/usr/sbin:/sbin" command -v debootstrap >/dev/null || fail 'debootstrap is missing: install it'
root=$(mktemp -d "${TMPDIR:-/var/tmp}/towpath-base.XXXXXX")
trap 'rm -rf --one-file-system "$root" "$root.log"' EXIT
say "fetching Debian $suite"
PATH="$PATH:/usr/sbin:/sbin" debootstrap --variant=minbase --include=python3,ca-certificates "$suite" "$root" "$mirror" \
    >"$root.log" 2>&1 || fail "debootstrap failed: $(tail -n 3 "$root.log" | tr '\n' ' ')"
there services || import services
say 'adding Java'
install_in_root default-jre-headless
import site
