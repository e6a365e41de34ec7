#!/bin/sh
# Copyright (c) 2026, The muster.kube authors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/license/bsd-2-clause)
# SPDX-License-Identifier: BSD-2-Clause
#
# Builds an image from a context with buildah and pushes it, inside a pod or on a plain machine. Everything buildah
# prints is the log, with the values of all secrets masked; the last thing printed is one framed JSON block that says
# how far it came.
#
# MUSTER_PART            build leaves the image as a directory in MUSTER_OUT, push takes it from there; all does both
# MUSTER_OUT             directory for the image between the two parts
# MUSTER_PRIVATE         directory, best in memory, for the values that are masked
# MUSTER_CONTEXT         directory with the file "index" (three lines for each file: mode, key, path) and the keys
# MUSTER_WORK            writable directory for the context and small files
# MUSTER_IMAGE           name of the image, with tag
# MUSTER_BASE            image to pull first; empty when only the Dockerfile knows it
# MUSTER_PUSH            yes or no
# MUSTER_PULL_AUTH       file with credentials of registries to read from; empty for none
# MUSTER_PUSH_AUTH       file with credentials of the registry to write to; empty for none
# MUSTER_PROBE           yes to build a tiny image out of the builder's own shell instead, to see whether it can be done
# MUSTER_SECRETS         directory with one file for each build secret, named by its id; may be missing
# MUSTER_CONFIGS         ids of those secrets that are files of settings: only passwords in them are masked
# MUSTER_OPEN            ids of those secrets that are public, such as certificates
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
created=
packages=
masker=

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
    stop_masking
    killed=$(oom_kills)
    {
        printf '{"stage":"%s","exit_code":%d,"terminated":%s,' "$stage" "$code" "$terminated"
        printf '"digest":"%s","base_digest":"%s","image_id":"%s",' "$digest" "$base_digest" "$image_id"
        printf '"created":"%s","oom_kill":%d,"packages":"%s"}' "$created" "${killed:-0}" "$packages"
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

# Everything in a file that must not be shown, one value in a line: passwords in URLs and settings, in files that are
# secret as a whole each line, and the same in base64. A URL without an account is no secret. Where a file does not end
# with a line break, an empty line keeps its last value apart.
values_of() {
    sed -n -e 's|.*://[^/@[:space:]]*:\([^/@[:space:]]*\)@.*|\1|p' -e 's|.*://\([^/@:[:space:]]*\)@.*|\1|p' "$1"
    echo
    tr ',{}' '\n' < "$1" | sed -n -E "s/.*$secret_words$setting_end/\\2/p"
    case " ${MUSTER_CONFIGS:-} " in
        *" ${1##*/} "*) return ;;
    esac
    echo
    sed -e '/^-----/d' -e '/^[a-z]*:\/\/[^@?]*$/d' "$1"
    echo
    base64 < "$1" | tr -d '\n'
    echo
}
secret_words='([Pp][Aa][Ss][Ss]|[Tt][Oo][Kk][Ee][Nn]|[Ss][Ee][Cc][Rr][Ee][Tt])'
setting_end='[A-Za-z0-9_]*["'"'"']?[[:space:]]*[[:space:]:=][[:space:]]*["'"'"']?([^"'"'"'[:space:]]+).*'

# The same of a file with accounts of registries, where user and password stand together in base64.
values_of_accounts() {
    tr ',{}' '\n' < "$1" | sed -n -E "s/.*$secret_words$setting_end/\\2/p"
    echo
    tr ',{}' '\n' < "$1" | sed -n 's/.*"auth"[[:space:]]*:[[:space:]]*"\([^"]*\)".*/\1/p' | while IFS= read -r account; do
        printf '%s\n' "$account"
        printf '%s' "$account" | base64 -d 2> /dev/null | sed 's/^[^:]*://'
        echo
    done
}

# Values too short to tell from any other text are left out; the longest come first, each also in base64.
long_values() {
    while IFS= read -r value || [ -n "$value" ]; do
        [ "${#value}" -ge 6 ] || continue
        printf '%s %s\n' "${#value}" "$value"
        coded_value=$(printf '%s' "$value" | base64 | tr -d '\n')
        printf '%s %s\n' "${#coded_value}" "$coded_value"
    done | sort -u | sort -k 1,1nr | sed 's/^[0-9]* //'
}

# From here on all output passes a filter that knows the values of all secrets of this container.
start_masking() {
    private=${MUSTER_PRIVATE:-$MUSTER_WORK/private}
    mkdir -p "$private" && chmod 700 "$private" && rm -rf "${private:?}"/* && mkdir "$private/values" || return
    for file in "${MUSTER_SECRETS:-/nonexistent}"/*; do
        case " ${MUSTER_OPEN:-} " in
            *" ${file##*/} "*) continue ;;
        esac
        [ ! -f "$file" ] || values_of "$file" | long_values > "$private/values/${file##*/}" || return
    done
    for file in "${MUSTER_PULL_AUTH:-}" "${MUSTER_PUSH_AUTH:-}"; do
        [ ! -f "$file" ] || values_of_accounts "$file" | long_values >> "$private/accounts" || return
    done
    cat "$private"/values/* "$private/accounts" 2> /dev/null | sed -e 's/[][\\/.*^$]/\\&/g' -e 's|.*|s/&/********/g|' > "$private/masks"
    [ -s "$private/masks" ] || return 0
    unbuffered=
    ! sed -u '' < /dev/null > /dev/null 2>&1 || unbuffered=-u
    mkfifo -m 600 "$private/pipe" || return
    sed $unbuffered -f "$private/masks" < "$private/pipe" &
    masker=$!
    exec 4>&1 5>&2 > "$private/pipe" 2>&1
}

# The filter ends with the last program that writes to it. One that stays behind is not waited for.
stop_masking() {
    [ -n "$masker" ] || return 0
    exec >&4 2>&5 4>&- 5>&-
    (sleep 5 && kill "$masker") > /dev/null 2>&1 &
    timer=$!
    wait "$masker" 2> /dev/null
    kill "$timer" 2> /dev/null
    masker=
}

# A text with the values of secrets masked.
masked() {
    if [ -s "${private:-}/masks" ]; then sed -f "$private/masks"; else cat; fi
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

# Runs a command so that a signal is heard at once; leaves when it fails. Its only way to the log is through the filter.
step() {
    "$@" 2>&1 4>&- 5>&- &
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
    # With the right to change its root a program would leave the image it runs in.
    set -- build $tls --cap-drop CAP_SYS_CHROOT --file "$MUSTER_WORK/Dockerfile" --tag "$MUSTER_IMAGE" --iidfile "$MUSTER_WORK/iid"
    [ -z "${MUSTER_LABEL:-}" ] || set -- "$@" --label "$MUSTER_LABEL"
    [ -z "${MUSTER_PLATFORM:-}" ] || set -- "$@" --platform "$MUSTER_PLATFORM"
    [ -z "${MUSTER_CACHE:-}" ] || set -- "$@" --layers --cache-from "$MUSTER_CACHE" --cache-to "$MUSTER_CACHE"
    for secret in "${MUSTER_SECRETS:-/nonexistent}"/*; do
        [ ! -f "$secret" ] || set -- "$@" --secret "id=${secret##*/},src=$secret"
    done
    step "$builder" "$@" "$MUSTER_WORK/context"
    image_id=$(cat "$MUSTER_WORK/iid")
    created=$(date -u +%Y-%m-%dT%H:%M:%SZ)
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
        podman run --rm --pull never --network none --cap-drop all --user 0 --entrypoint /bin/sh "$MUSTER_IMAGE" -c "$script" \
            > "$MUSTER_WORK/packages" 2> /dev/null 4>&- 5>&-
    else
        container=$(buildah from --pull=never "$MUSTER_IMAGE" 2> /dev/null) || return 0
        buildah run --cap-drop CAP_SYS_CHROOT --user 0 "$container" -- /bin/sh -c "$script" \
            > "$MUSTER_WORK/packages" 2> /dev/null 4>&- 5>&-
        buildah rm "$container" > /dev/null 2>&1
    fi
    packages=$(masked < "$MUSTER_WORK/packages" | coded)
}

# The digest of an image in the local storage.
digest_of() {
    if [ "$builder" = podman ]; then
        podman image inspect --format '{{.Digest}}' "$1" 2> /dev/null
    else
        buildah inspect --type image --format '{{.FromImageDigest}}' "$1" 2> /dev/null
    fi
}

# The image as a directory with plain layers; it does not leave when a secret was put into it.
hand_over() {
    step "$builder" push --disable-compression "$MUSTER_IMAGE" "dir:$MUSTER_OUT/image"
    for values in "$private"/values/*; do
        [ -s "$values" ] || continue
        if grep -r -q -a -F -f "$values" "$MUSTER_OUT/image"; then
            rm -rf "$MUSTER_OUT/image"
            echo "Error: the image holds the value of build secret ${values##*/}; it is not pushed"
            finish 1
        fi
    done
    # Its room is needed by who pushes.
    "$builder" rmi --all --force > /dev/null 2>&1
}

# Takes the image from the directory, where it has no name, and pushes it.
push_layout() {
    trust_registries || finish 125
    stage=push
    "$builder" pull --quiet "dir:$MUSTER_OUT/image" > "$MUSTER_WORK/taken" || finish 1
    push_image "$(tail -n 1 "$MUSTER_WORK/taken")" "docker://$MUSTER_IMAGE"
}

# shellcheck disable=SC2086 # one option or none
push_image() {
    [ -z "${MUSTER_PUSH_AUTH:-}" ] || export REGISTRY_AUTH_FILE="$MUSTER_PUSH_AUTH"
    step "$builder" push $tls --digestfile "$MUSTER_WORK/digest" "$@"
    digest=$(cat "$MUSTER_WORK/digest")
}

choose_storage() {
    if [ "${MUSTER_STORAGE:-}" = overlay ] && ! STORAGE_DRIVER=overlay "$builder" info > /dev/null 2>&1; then
        MUSTER_STORAGE=vfs
    fi
    if [ -n "${MUSTER_STORAGE:-}" ]; then
        export STORAGE_DRIVER="$MUSTER_STORAGE"
        printf 'storage driver: %s\n' "$STORAGE_DRIVER"
    fi
}

# shellcheck disable=SC2086 # one option or none
main() {
    choose_storage
    start_masking || finish 125
    if [ "$part" = push ]; then
        push_layout
        stage="done"
        finish 0
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
    if [ "$part" = build ]; then
        hand_over
        stage=built
        finish 0
    fi
    if [ "${MUSTER_PUSH:-yes}" = yes ]; then
        stage=push
        push_image "$MUSTER_IMAGE"
    else
        digest=$(digest_of "$MUSTER_IMAGE")
    fi
    stage="done"
    finish 0
}

trap stop TERM INT
umask 022
builder=${MUSTER_BUILDER:-buildah}
part=${MUSTER_PART:-all}
tls=
[ "${MUSTER_POD:-no}" != yes ] || export BUILDAH_ISOLATION="${BUILDAH_ISOLATION:-chroot}"
export TMPDIR="$MUSTER_WORK/tmp"
mkdir -p "$TMPDIR" || exit 125
main
