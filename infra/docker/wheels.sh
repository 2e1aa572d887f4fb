#!/usr/bin/env bash
# Makes the build context of the images: wheels of Towpath and of everything that it depends on, in four folders.
#   wheels.sh DIR   →  DIR/wheels/{pip,services,engine,project}
# The second time only what changed is made. The wheels are for the interpreter that makes them, and of the versions
# that it has: the one in .venv, or the one named in PYTHON. The images' base must have the same version of Python.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ $# -eq 1 ] || { echo 'usage: wheels.sh DIR' >&2; exit 2; }
mkdir -p "$1"
readonly target=$(cd "$1" && pwd)/wheels
readonly python=${PYTHON:-.venv/bin/python}

say() { printf 'wheels: %s\n' "$*" >&2; }
pip() { "$python" -m pip --disable-pip-version-check -qq "$@"; }

# Prints the project's requirements, or those of one of its extras.
requirements() {
    "$python" - "$@" <<'END'
import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
for extra in sys.argv[1:]:
    print(*project["optional-dependencies"][extra], sep="\n")
print(*project["dependencies"], sep="\n")
END
}

# What the interpreter has is what is tested.
installed() { "$python" -m pip --disable-pip-version-check freeze --exclude-editable | grep == || true; }

# Whatever lies in the folder was made from these requirements by this interpreter.
digest() { { "$python" -VV; requirements engine; installed; cat infra/docker/wheels.sh; } | sha256sum | cut -d ' ' -f 1; }

libraries() {
    local wanted
    wanted=$(digest)
    [ "$(cat "$target/.libraries" 2>/dev/null)" != "$wanted" ] || return 0
    say "collecting libraries for $("$python" -V)"
    rm -rf "$target"
    mkdir -p "$target"
    pip wheel --no-deps --wheel-dir "$target/pip" pip
    # Redis's client needs it before Python 3.11.3, and Debian 12 has 3.11.2, whatever makes the wheels.
    # Fault rules need CEL, wherever they act.
    { requirements; echo async-timeout; requirements lab | grep ^common-expression; } >"$target/services.txt"
    requirements engine >"$target/engine.txt"
    installed >"$target/versions.txt"
    pip wheel --constraint "$target/versions.txt" --wheel-dir "$target/services" --requirement "$target/services.txt"
    # The same versions of what both have.
    (cd "$target/services" && printf '%s\n' *.whl) | sed -E 's/^([^-]+)-([^-]+)-.*/\1==\2/' >>"$target/versions.txt"
    pip wheel --constraint "$target/versions.txt" --find-links "$target/services" \
        --wheel-dir "$target/engine" --requirement "$target/engine.txt"
    local wheel
    for wheel in "$target"/services/*.whl; do rm -f "$target/engine/${wheel##*/}"; done
    echo "$wanted" >"$target/.libraries"
}

project() {
    local made
    made=$(echo "$target"/project/towpath-*.whl)
    [ ! -e "$made" ] || [ -n "$(find contracts libs services infra/supply pyproject.toml README.md -newer "$made" ! -name '*.pyc' \
        ! -name __pycache__ -print -quit)" ] || return 0
    say 'building Towpath itself'
    rm -rf "$target/project"
    pip wheel --no-deps --wheel-dir "$target/project" .
}

libraries
project
