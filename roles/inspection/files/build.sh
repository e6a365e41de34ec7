#!/bin/sh
# Copyright (c) 2026, The muster.kube authors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/license/bsd-2-clause)
# SPDX-License-Identifier: BSD-2-Clause
#
# Builds an image from a context with buildah and pushes it, inside a pod or on a plain machine. Everything buildah
# prints is the log; the last thing printed is one framed JSON block that says how far it came.
#
# MUSTER_CONTEXT         directory with the file "index" (three lines for each file: mode, key, path) and the keys
# MUSTER_WORK            writable directory for the context and small files
# MUSTER_IMAGE           name of the image, with tag
# MUSTER_BASE            image to pull first; empty when only the Dockerfile knows it
# MUSTER_PUSH            yes or no
# MUSTER_PULL_AUTH       file with credentials of registries to read from; empty for none
# MUSTER_PUSH_AUTH       file with credentials of the registry to write to; empty for none
# MUSTER_PROBE           yes to build a tiny image out of the builder's own shell instead, to see whether it can be done
# MUSTER_SECRETS         directory with one file for each build secret, named by its id; may be missing
# MUSTER_INSECURE        registries without (trusted) TLS, separated by spaces
# MUSTER_BUILDER         buildah (the default) or podman
# MUSTER_POD             yes when the file system is the builder's own, so that its configuration may be written
# MUSTER_CACHE           repository for layers; empty for none
# MUSTER_PLATFORM        such as linux/arm64; empty for that of the node
# MUSTER_LABEL           label of the image, name=value
# MUSTER_STORAGE         vfs, overlay, or empty to leave it to buildah
set -u

stage=prepare
child=
digest=
base_digest=
image_id=
packages=

# One line of base64, so that any text can stand in JSON.
coded() { base64 | tr -d '\n'; }

# How often the kernel ended a process of this container for its memory.
oom_kills() {
    for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
        if [ -r "$file" ]; then
            sed -n 's/^oom_kill \([0-9][0-9]*\)$/\1/p' "$file"
            return
        fi
    done
}

finish() {
    code=$1
    terminated=${2:-false}
    killed=$(oom_kills)
    {
        printf '{"stage":"%s","exit_code":%d,"terminated":%s,' "$stage" "$code" "$terminated"
        printf '"digest":"%s","base_digest":"%s","image_id":"%s",' "$digest" "$base_digest" "$image_id"
        printf '"oom_kill":%d,"packages":"%s"}' "${killed:-0}" "$packages"
    } > "$MUSTER_WORK/frame.json"
    size=$(wc -c < "$MUSTER_WORK/frame.json" | tr -d ' ')
    sum=$(sha256sum < "$MUSTER_WORK/frame.json" | cut -d ' ' -f 1)
    printf -- '-----BEGIN MUSTER RESULT v1 %s %s-----\n' "$size" "$sum"
    base64 < "$MUSTER_WORK/frame.json"
    printf -- '-----END MUSTER RESULT-----\n'
    if [ -w /dev/termination-log ]; then
        printf '{"stage":"%s","digest":"%s"}' "$stage" "$digest" > /dev/termination-log
    fi
    exit "$code"
}

# Ends what runs, then tells how far it came.
# shellcheck disable=SC2317,SC2329 # called by a trap
stop() {
    if [ -n "$child" ]; then
        kill -TERM "$child" 2> /dev/null
        wait "$child" 2> /dev/null
    fi
    finish 143 true
}

# Runs a command so that a signal is heard at once; leaves when it fails.
step() {
    "$@" 2>&1 &
    child=$!
    wait "$child"
    result=$?
    child=
    [ "$result" -eq 0 ] || finish "$result"
}

copy_context() {
    mkdir -p "$MUSTER_WORK/context" "$MUSTER_WORK/tmp" || return
    while IFS= read -r mode && IFS= read -r key && IFS= read -r path; do
        target=$MUSTER_WORK/context/$path
        mkdir -p "${target%/*}" && cat "$MUSTER_CONTEXT/$key" > "$target" && chmod "$mode" "$target" || return
    done < "$MUSTER_CONTEXT/index"
    cat "$MUSTER_CONTEXT/Dockerfile" > "$MUSTER_WORK/Dockerfile"
}

# A context of its own: the shell that runs this, and the libraries it needs.
make_probe() {
    mkdir -p "$MUSTER_WORK/context" || return
    for file in /bin/sh $(ldd /bin/sh 2> /dev/null | grep -o '/[^ )]*'); do
        target=$MUSTER_WORK/context$file
        mkdir -p "${target%/*}" && cat "$file" > "$target" && chmod 755 "$target" || return
    done
    printf 'FROM scratch\nCOPY . /\nRUN ["/bin/sh", "-c", "echo it works"]\n' > "$MUSTER_WORK/Dockerfile"
}

trust_registries() {
    [ -n "${MUSTER_INSECURE:-}" ] || return 0
    if [ "${MUSTER_POD:-no}" != yes ]; then
        tls=--tls-verify=false
        return 0
    fi
    folder=/etc/containers/registries.conf.d
    mkdir -p "$folder" || return
    for registry in $MUSTER_INSECURE; do
        printf '[[registry]]\nlocation = "%s"\ninsecure = true\n\n' "$registry"
    done > "$folder/900-muster.conf"
}

# shellcheck disable=SC2086 # one option or none
build_image() {
    set -- build $tls --file "$MUSTER_WORK/Dockerfile" --tag "$MUSTER_IMAGE" --iidfile "$MUSTER_WORK/iid"
    [ -z "${MUSTER_LABEL:-}" ] || set -- "$@" --label "$MUSTER_LABEL"
    [ -z "${MUSTER_PLATFORM:-}" ] || set -- "$@" --platform "$MUSTER_PLATFORM"
    [ -z "${MUSTER_CACHE:-}" ] || set -- "$@" --layers --cache-from "$MUSTER_CACHE" --cache-to "$MUSTER_CACHE"
    for secret in "${MUSTER_SECRETS:-/nonexistent}"/*; do
        [ ! -f "$secret" ] || set -- "$@" --secret "id=${secret##*/},src=$secret"
    done
    step "$builder" "$@" "$MUSTER_WORK/context"
    image_id=$(cat "$MUSTER_WORK/iid")
}

# What is installed, as the package managers of the image tell it; an image without a shell tells nothing.
# shellcheck disable=SC2016 # the image's shell and package managers expand it
list_packages() {
    script='
    if command -v dpkg-query > /dev/null 2>&1; then
        echo "@dpkg"; dpkg-query -W -f "\${db:Status-Abbrev} \${Package} \${Version}\n" 2> /dev/null
    fi
    if command -v rpm > /dev/null 2>&1; then
        echo "@rpm"; rpm -qa --qf "%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}.%{ARCH}\n" 2> /dev/null
    fi
    if command -v apk > /dev/null 2>&1; then echo "@apk"; apk info -v 2> /dev/null; fi
    if command -v python3 > /dev/null 2>&1; then
        echo "@pip"
        python3 -c "
from importlib.metadata import distributions
for item in distributions():
    print(item.metadata[\"Name\"], item.version)" 2> /dev/null
    fi
    true'
    if [ "$builder" = podman ]; then
        podman run --rm --pull never --network none --user 0 --entrypoint /bin/sh "$MUSTER_IMAGE" -c "$script" \
            > "$MUSTER_WORK/packages" 2> /dev/null
    else
        container=$(buildah from --pull=never "$MUSTER_IMAGE" 2> /dev/null) || return 0
        buildah run --user 0 "$container" -- /bin/sh -c "$script" > "$MUSTER_WORK/packages" 2> /dev/null
        buildah rm "$container" > /dev/null 2>&1
    fi
    packages=$(coded < "$MUSTER_WORK/packages")
}

# The digest of an image in the local storage.
digest_of() {
    if [ "$builder" = podman ]; then
        podman image inspect --format '{{.Digest}}' "$1" 2> /dev/null
    else
        buildah inspect --type image --format '{{.FromImageDigest}}' "$1" 2> /dev/null
    fi
}

# shellcheck disable=SC2086 # one option or none
main() {
    if [ "${MUSTER_STORAGE:-}" = overlay ] && ! STORAGE_DRIVER=overlay "$builder" info > /dev/null 2>&1; then
        MUSTER_STORAGE=vfs
    fi
    if [ -n "${MUSTER_STORAGE:-}" ]; then
        export STORAGE_DRIVER="$MUSTER_STORAGE"
        printf 'storage driver: %s\n' "$STORAGE_DRIVER"
    fi
    if [ "${MUSTER_PROBE:-no}" = yes ]; then
        make_probe || finish 125
        stage=build
        build_image
        stage="done"
        finish 0
    fi
    [ -z "${MUSTER_PULL_AUTH:-}" ] || export REGISTRY_AUTH_FILE="$MUSTER_PULL_AUTH"
    copy_context || finish 125
    trust_registries || finish 125
    if [ -n "${MUSTER_BASE:-}" ]; then
        stage=pull
        if [ -n "${MUSTER_PLATFORM:-}" ]; then
            step "$builder" pull $tls --platform "$MUSTER_PLATFORM" "$MUSTER_BASE"
        else
            step "$builder" pull $tls "$MUSTER_BASE"
        fi
        base_digest=$(digest_of "$MUSTER_BASE")
    fi
    stage=build
    build_image
    list_packages
    if [ "${MUSTER_PUSH:-yes}" = yes ]; then
        stage=push
        [ -z "${MUSTER_PUSH_AUTH:-}" ] || export REGISTRY_AUTH_FILE="$MUSTER_PUSH_AUTH"
        step "$builder" push $tls --digestfile "$MUSTER_WORK/digest" "$MUSTER_IMAGE"
        digest=$(cat "$MUSTER_WORK/digest")
    else
        digest=$(digest_of "$MUSTER_IMAGE")
    fi
    stage="done"
    finish 0
}

trap stop TERM INT
umask 022
builder=${MUSTER_BUILDER:-buildah}
tls=
[ "${MUSTER_POD:-no}" != yes ] || export BUILDAH_ISOLATION="${BUILDAH_ISOLATION:-chroot}"
export TMPDIR="$MUSTER_WORK/tmp"
mkdir -p "$TMPDIR" || exit 125
main
