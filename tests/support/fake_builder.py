# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for buildah and podman that does next to nothing, for what a real one does not do on demand."""

from __future__ import annotations

import os
import pathlib
import typing as t

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "roles/inspection/files/build.sh"
# Writes down its arguments, keeps one image in a file, and fails or waits at the verb it is told to.
_PROGRAM = """#!/bin/sh
state=$FAKE_STATE
echo "${0##*/} $*" | tr '\\n' ' ' >> "$state/calls"
echo >> "$state/calls"
verb=$1
if [ "$verb" = "${FAKE_FAILS:-}" ]; then echo "Error: $verb went wrong" >&2; exit 7; fi
if [ "$verb" = "${FAKE_HANGS:-}" ]; then echo waiting; touch "$state/waiting"; exec sleep 600; fi
previous=
for word in "$@"; do
    case $previous in
        --iidfile) printf 'sha256:1d' > "$word" ;;
        --digestfile) printf 'sha256:d1' > "$word" ;;
        --tag) printf '%s' "$word" > "$state/image" ;;
        --secret) cat "${word#*src=}" >> "$state/secrets" ;;
    esac
    previous=$word
done
case $verb in
    push)
        case " $* " in *" dir:"*)
            for last in "$@"; do :; done
            folder=${last#dir:}
            mkdir -p "$folder" && printf 'layer %s' "${FAKE_LAYER:-}" > "$folder/blob"
        esac ;;
    pull) case " $* " in *" dir:"*) echo noise; echo 1d ;; esac ;;
    build)
        [ -z "${FAKE_LEAVES:-}" ] || (sleep 600 &)
        for last in "$@"; do :; done
        cp -r "$last" "$state/context"
        echo "STEP 1"
        printf '%s\\n' "${FAKE_SAYS:-}" ;;
    from) echo working-container ;;
    run) printf '@dpkg\\nii  hello 2.10\\n@pip\\nx 1%s\\n' "${FAKE_LISTS:-}" ;;
    inspect | image) printf 'sha256:ba' ;;
    images) [ ! -f "$state/image" ] || echo sha256:1d ;;
    rmi) rm -f "$state/image" ;;
    info) [ -z "${FAKE_NO_OVERLAY:-}" ] || exit 1 ;;
esac
"""


class FakeBuilder:
    """The programs in a folder of their own, and what they were asked to do."""

    def __init__(self, folder: pathlib.Path, names: t.Sequence[str] = ("buildah", "podman")) -> None:
        """Write the programs."""
        self.state = folder / "state"
        self.programs = folder / "bin"
        self.state.mkdir(parents=True)
        self.programs.mkdir()
        for name in names:
            program = self.programs / name
            program.write_text(_PROGRAM)
            program.chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        """Variables with which the programs are found."""
        return {"PATH": f"{self.programs}:{os.environ['PATH']}", "FAKE_STATE": str(self.state), **more}

    @property
    def calls(self) -> list[str]:
        """What was called, with arguments."""
        path = self.state / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def verbs(self) -> list[str]:
        """What was called, without arguments."""
        return [call.split()[1] for call in self.calls]
