# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shell scripts that install packages while an image is built.

They never change with the stack: names, versions and URLs reach them as lines of files, so nothing a user wrote is
ever read by a shell. They need /bin/sh and nothing else that an image could lack. They are texts and no files because a
module that was sent to another host has no files of the collection; tests run shellcheck on each.
"""

from __future__ import annotations

BUILD_FOLDER = "/opt/muster/build"
VENV_FOLDER = "/opt/muster/venv"

SECRETS_SH = r"""# Read by the install scripts. secrets.txt has one build secret in each line: its use and its id.
# shellcheck shell=sh disable=SC2034,SC2154 # variables shared with those scripts

fail() {
    echo "muster.kube: $*" >&2
    exit 1
}

# Buildah's chroot isolation ends with the step and does not wait for what it still has to pass on, so what a step says
# last could be lost: a step that fails ends a second later.
trap 'code=$?; [ "$code" -eq 0 ] || sleep 1 2> /dev/null || true; exit "$code"' EXIT

ca=
native_config=

# Lines NAME=value of a file become variables; nothing in them is evaluated.
export_lines() {
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
            '' | '#'*) continue ;;
        esac
        case ${line%%=*} in
            "$line" | '' | [0-9]* | *[!A-Za-z0-9_]*) fail "a line of the build secret $2 is not NAME=value" ;;
        esac
        # shellcheck disable=SC2163 # the whole assignment is meant
        export "$line"
    done < "$1"
}

# Arguments: uses of other steps, whose secrets are not mounted in this one.
use_secrets() {
    while read -r use id; do
        case " $* " in
            *" $use "*) continue ;;
        esac
        path=/run/secrets/$id
        [ -r "$path" ] || fail "the build secret $id is not mounted"
        case $use in
            environment) export_lines "$path" "$id" ;;
            netrc) export NETRC="$path" ;;
            pip_config) export PIP_CONFIG_FILE="$path" ;;
            uv_config) export UV_CONFIG_FILE="$path" ;;
            native_config) native_config=$path ;;
            ca)
                ca=$path
                export SSL_CERT_FILE="$path" SSL_CA_CERT_FILE="$path" CURL_CA_BUNDLE="$path" GIT_SSL_CAINFO="$path"
                export PIP_CERT="$path" REQUESTS_CA_BUNDLE="$path"
                ;;
        esac
    done < "$here/secrets.txt"
}
"""

NATIVE_SH = r"""#!/bin/sh
# Install native packages with the package manager that the base has.
# Arguments: the manager or auto, and whether to update the packages of the base (yes or no).
# native.txt has one package in each line.
set -eu
here=${0%/*}
# shellcheck source=/dev/null
. "$here/secrets.sh"
use_secrets pip_config uv_config mount

managers="dnf microdnf yum zypper apt-get apk"

find_manager() {
    for candidate in $managers; do
        if command -v "$candidate" > /dev/null 2>&1; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

# zypper: 102 and 103 say that something should be started again, which does not matter in an image.
zypper_run() {
    code=0
    zypper --non-interactive ${native_config:+--config "$native_config"} "$@" || code=$?
    case $code in
        0 | 102 | 103) ;;
        *) exit "$code" ;;
    esac
}

manager=$1
update=$2
case $manager in
    auto) manager=$(find_manager) || fail "the base image has no package manager that is known ($managers)" ;;
    apt) manager=apt-get ;;
esac
command -v "$manager" > /dev/null 2>&1 || fail "the base image has no $manager"
echo "muster.kube: native packages by $manager"

set --
while IFS= read -r name || [ -n "$name" ]; do
    set -- "$@" "$name"
done < "$here/native.txt"

case $manager in
    apt-get)
        export DEBIAN_FRONTEND=noninteractive
        [ -z "$native_config" ] || export APT_CONFIG="$native_config"
        apt_get() { apt-get -q -y ${ca:+-o "Acquire::https::CAInfo=$ca"} "$@"; }
        apt_get update
        [ "$update" = no ] || apt_get upgrade
        [ $# -eq 0 ] || apt_get install --no-install-recommends "$@"
        apt-get clean
        rm -rf /var/lib/apt/lists
        ;;
    dnf | microdnf)
        dnf_run() {
            "$manager" -y ${native_config:+--config="$native_config"} ${ca:+--setopt=sslcacert="$ca"} \
                --setopt=install_weak_deps=0 "$@"
        }
        [ "$update" = no ] || dnf_run upgrade
        [ $# -eq 0 ] || dnf_run install "$@"
        "$manager" clean all
        ;;
    yum)
        # Without the last setting yum calls it a success when a package does not exist.
        yum_run() {
            yum -y ${native_config:+--config="$native_config"} ${ca:+--setopt=sslcacert="$ca"} \
                --setopt=skip_missing_names_on_install=0 "$@"
        }
        [ "$update" = no ] || yum_run update
        [ $# -eq 0 ] || yum_run install "$@"
        yum clean all
        ;;
    zypper)
        zypper_run refresh
        [ "$update" = no ] || zypper_run update
        [ $# -eq 0 ] || zypper_run install --no-recommends "$@"
        zypper_run clean --all
        ;;
    apk)
        [ "$update" = no ] || apk upgrade --no-cache ${native_config:+--repositories-file "$native_config"}
        [ $# -eq 0 ] || apk add --no-cache ${native_config:+--repositories-file "$native_config"} "$@"
        ;;
esac
"""

PYTHON_SH = r"""#!/bin/sh
# Install Python packages into a virtual environment.
# Arguments: pip or uv, whether to upgrade pip first, whether to hide the packages of the base (yes or no), and the
# numbers of the indexes that pip and uv themselves come from.
# python-versions.txt: version specifiers that the Python of the base has to meet.
# indexes.txt: one index in each line: "url" and the URL or "secret" and the id, then a host to trust or "-".
# steps.txt: one installation in each line: "hashed" or "free", the numbers of its indexes with commas or "-" for what
# the base is set up for, and its requirements files.
set -eu
here=${0%/*}
venv=/opt/muster/venv
installer=$1
upgrade_pip=$2
isolated=$3
# shellcheck source=/dev/null
. "$here/secrets.sh"
use_secrets native_config
export PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore UV_NO_CACHE=1

python=$(command -v python3) ||
    fail "the base image has no python3; add it to packages (on Debian and Ubuntu python3 and python3-venv)"

make_venv() {
    if [ "$isolated" = yes ]; then
        "$python" -m venv --clear "$venv" && return 0
    else
        # An earlier stack made it.
        [ ! -x "$venv/bin/python" ] || return 0
        # The base lives in a virtual environment already: go on in that one.
        own=$("$python" -c 'import sys; print(sys.prefix if sys.prefix != sys.base_prefix else "")')
        if [ -n "$own" ]; then
            ln -s "$own" "$venv"
            return 0
        fi
        "$python" -m venv --system-site-packages "$venv" && return 0
    fi
    fail "python3 of the base cannot make a virtual environment; on Debian and Ubuntu add python3-venv to packages"
}

# One index as the variables url and host.
find_index() {
    count=0
    while read -r kind value host; do
        count=$((count + 1))
        [ "$count" -ne "$1" ] || break
    done < "$here/indexes.txt"
    url=$value
    [ "$kind" = url ] || IFS= read -r url < "/run/secrets/$value" || [ -n "$url" ] ||
        fail "the build secret $value holds no URL"
}

# Tell pip and uv which indexes to use; in variables, where no log shows them.
use_indexes() {
    [ "$1" != - ] || return 0
    first='' others='' hosts=''
    IFS=,
    # shellcheck disable=SC2086 # split at the commas
    set -- $1
    unset IFS
    for number in "$@"; do
        find_index "$number"
        if [ -z "$first" ]; then first=$url; else others="$others $url"; fi
        [ "$host" = - ] || hosts="$hosts $host"
    done
    export PIP_INDEX_URL="$first" UV_DEFAULT_INDEX="$first"
    [ -z "$others" ] || export PIP_EXTRA_INDEX_URL="${others# }" UV_INDEX="${others# }"
    [ -z "$hosts" ] || export PIP_TRUSTED_HOST="${hosts# }" UV_INSECURE_HOST="${hosts# }"
}

install() {
    if [ "$installer" = uv ]; then
        "$uv" pip install --python "$venv/bin/python" "$@"
    else
        "$venv/bin/python" -m pip install "$@"
    fi
}

run_step() {
    mode=$1
    use_indexes "$2"
    shift 2
    count=$#
    for file in "$@"; do
        set -- "$@" -r "$here/$file"
    done
    shift "$count"
    if [ "$mode" = hashed ]; then
        # Hashes tell the right file, so it does not matter which index has it.
        export UV_INDEX_STRATEGY=unsafe-best-match
        set -- --no-deps --require-hashes "$@"
    fi
    install "$@"
}

make_venv
"$venv/bin/python" -m pip --version > /dev/null 2>&1 || "$venv/bin/python" -m ensurepip ||
    fail "the Python of the base image has no pip; add it to packages"

while IFS= read -r wanted <&3; do
    "$venv/bin/python" -c '
import platform, sys
from pip._vendor.packaging.specifiers import SpecifierSet
found = platform.python_version()
print("muster.kube: Python", found)
sys.exit(not SpecifierSet(sys.argv[1]).contains(found, prereleases=True))
' "$wanted" || fail "the stack asks for Python $wanted, which the base image does not have"
done 3< "$here/python-versions.txt"

if [ "$upgrade_pip" = yes ]; then
    (
        use_indexes "$4"
        "$venv/bin/python" -m pip install --upgrade pip
    )
fi
if [ "$installer" = uv ]; then
    uv=$(command -v uv) || {
        (
            use_indexes "$4"
            "$venv/bin/python" -m pip install uv
        )
        uv=$venv/bin/uv
    }
fi
while read -r mode numbers files <&3; do
    # shellcheck disable=SC2086 # several files, whose names have no spaces
    (run_step "$mode" "$numbers" $files)
done 3< "$here/steps.txt"
"""
