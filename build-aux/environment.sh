# Sourced by every script here: the same surroundings, whoever starts it and from wherever.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROOT=$PWD
umask 022

# A virtual environment that happens to be active, or paths that someone exported for another
# project, must not decide what is built or imported.
unset VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONOPTIMIZE PYTHONWARNINGS
unset PYTHONSAFEPATH PYTHONDONTWRITEBYTECODE PYTEST_ADDOPTS DESTDIR CDPATH
unset PIP_TARGET PIP_PREFIX PIP_ROOT PIP_BUILD_CONSTRAINT PIP_NO_DEPS PIP_DRY_RUN
export PYTHONNOUSERSITE=1 PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_NO_INPUT=1
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# The virtual environment that everything here is built and tested with: its programs come first.
# It is made by the interpreter of the machine, PYTHON, which is found without it.
VENV=$ROOT/.venv
SYSTEM_PATH=:$PATH:
SYSTEM_PATH=${SYSTEM_PATH//":$VENV/bin:"/:}
SYSTEM_PATH=${SYSTEM_PATH#:}
SYSTEM_PATH=${SYSTEM_PATH%:}
export PATH=$VENV/bin:$SYSTEM_PATH
PYTHON=${PYTHON:-python3}

step() {
    printf '\n==> %s\n' "$*"
}

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}
