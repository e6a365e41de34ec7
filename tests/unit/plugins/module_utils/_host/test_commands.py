# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program is run to its end with an environment and a directory of its own."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._host.commands import run_command


def test_a_program_tells_what_it_printed_and_how_it_ended(tmp_path):
    command = ["/bin/sh", "-c", 'read line; echo "$WORD $PWD $line"; echo no >&2; exit 3']
    answer = run_command(command, {"WORD": "yes"}, tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (3, f"yes {tmp_path} \n", "no\n")
