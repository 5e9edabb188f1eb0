# Sourced by the scripts beside it.
#
#   make_venv <extras>     e.g. make_venv demo
#
# makes .venv and installs the project with these extras into it, unless that has been done already for this
# pyproject.toml. Needs a Python of at least 3.11 with pip; PYTHON chooses it. Sets $VENV_PYTHON.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV="$ROOT/.venv"
VENV_PYTHON="$VENV/bin/python"

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
        if [ -n "${PYTHON:-}" ]; then
            echo "PYTHON=$PYTHON is no Python of at least 3.11" >&2
            return 1
        fi
    done
    echo "no Python of at least 3.11 was found: install one, or name it by PYTHON=/path/to/python" >&2
    return 1
}

# Some systems ship Python without the part that puts pip into a new environment: then its own pip installs there.
create_venv() {
    "$1" -m venv --clear "$VENV" >/dev/null 2>&1 || "$1" -m venv --clear --without-pip "$VENV"
}

# pyspark comes as source, 450 MB that hardly compress: its wheel is only a way to put it in place.
pip_install() {
    local python=$1 options=(
        install --disable-pip-version-check --no-input --no-compile --config-settings=--build-option=--compression=stored
    )
    shift
    if "$VENV_PYTHON" -m pip --version >/dev/null 2>&1; then
        "$VENV_PYTHON" -m pip "${options[@]}" "$@"
    else
        "$python" -m pip --python "$VENV_PYTHON" "${options[@]}" "$@"
    fi | show_steps
}

# What takes long, out of all that pip tells; its errors go their own way.
show_steps() {
    local line
    while IFS= read -r line; do
        line=${line#"${line%%[! ]*}"}
        case "$line" in
            Downloading*\([0-9][0-9]*" MB)" | Installing\ collected*) echo "  ${line%%:*}" ;;
            Building\ wheel*pyspark*started) echo "  ${line% (*}" ;;
        esac
    done >&2
}

# The version of a Python, empty when there is none.
version_of() {
    "$1" -c 'import sys; print(sys.version)' 2>/dev/null || true
}

make_venv() {
    local extras=$1 python stamp wanted
    # Without PYTHON, an environment that is there already is good enough.
    python=$(PYTHON=${PYTHON:-$([ -z "$(version_of "$VENV_PYTHON")" ] || echo "$VENV_PYTHON")} find_python) || return 1
    stamp="$VENV/.installed-$extras"
    wanted="$(version_of "$python") $(cksum <"$ROOT/pyproject.toml")"
    if [ "$(version_of "$VENV_PYTHON")" = "$(version_of "$python")" ]; then
        [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0
    else
        create_venv "$python" || return 1
    fi
    echo "Installing hive-ingest[$extras] into .venv ..." >&2
    pip_install "$python" --editable "$ROOT[$extras]" || return 1
    echo "$wanted" >"$stamp"
}
