#!/usr/bin/env bash
# Makes the virtual environment (the argument) and installs flinkish with everything needed to run and test it.
set -euo pipefail

venv=$1

is_usable() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local python
    for python in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if command -v "$python" >/dev/null && is_usable "$python"; then
            command -v "$python"
            return
        fi
    done
    echo "flinkish needs Python 3.11 or newer, which was not found: install it, or set PYTHON to its path." >&2
    return 1
}

if ! { [ -x "$venv/bin/python" ] && is_usable "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; }; then
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        # Debian has this part of Python in a separate package.
        package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            echo "Installing $package with apt-get ..."
            DEBIAN_FRONTEND=noninteractive apt-get update >/dev/null 2>&1 || true
            DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$package" >/dev/null 2>&1 || true
        fi
        if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$python cannot make virtual environments: install the package $package." >&2
            exit 1
        fi
    fi
    echo "Making the virtual environment $venv with $("$python" --version) ..."
    "$python" -m venv --clear "$venv"
fi

echo "Installing flinkish and the packages it needs into $venv (Spark alone is about 450 MB the first time) ..."
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
