# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collector for real, in three shells: whatever the script does, there is one whole result."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import signal

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import ITEM_KEYS, USAGE_KEYS
from ansible_collections.muster.kube.tests.support.collector_run import (
    COLLECTOR,
    SHELLS,
    SYSTEM_PATH,
    alive,
    finish_collector,
    run_collector,
    shell_command,
    small_path,
    start_collector,
    wait_for_file,
)


def checked(name):
    """The name of a shell that is there."""
    if not shell_command(name):
        pytest.skip(f"{name} is not on this machine")
    return name


@pytest.fixture(params=sorted(SHELLS))
def shell(request):
    """Each of the shells."""
    return checked(request.param)


@pytest.fixture
def some_shell(request):
    """One of the shells, another one for each test: enough where the shells hardly differ."""
    return checked(sorted(SHELLS)[len(request.node.name) % len(SHELLS)])


def test_json_output_exit_code_and_all_keys(shell, tmp_path):
    script = b'#!/bin/sh\necho \'{"@result": {"rate": 2.5}}\'\necho to people >&2\nexit 3\n'
    ran = run_collector(shell, tmp_path, script, MUSTER_INDEX="07")
    assert ran.code == 3
    assert tuple(ran.item) == ITEM_KEYS
    assert tuple(ran.item["usage"]) == USAGE_KEYS
    assert ran.item["exit_code"] == 3
    assert ran.item["signal"] is None
    assert ran.item["stdout"] == {"@result": {"rate": 2.5}}
    assert ran.item["stdout_json"] is True
    assert ran.item["stderr"] == "to people\n"
    assert ran.item["script_sha256"] == hashlib.sha256(script).hexdigest()
    assert ran.item["hostname"] == os.uname().nodename
    assert ran.item["reason"] == "script_failed"
    assert ran.payload["index"] == 7
    assert 0 <= ran.item["wall_seconds"] < 60
    assert ran.item["start"] <= ran.item["end"]
    assert ran.log.startswith(b"-----BEGIN MUSTER RESULT v1 ")
    assert ran.log.endswith(b"\n-----END MUSTER RESULT-----\n")
    assert ran.stderr == b""
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["hwinfo.json"]


@pytest.mark.parametrize(("position", "index"), [("0", 3), ("1", 7), ("2", 12)])
def test_where_only_some_repetitions_are_run_the_script_sees_its_own_number(some_shell, tmp_path, position, index):
    script = b'#!/bin/sh\nprintf "[%s]" "$MUSTER_INDEX"\n'
    ran = run_collector(some_shell, tmp_path, script, MUSTER_INDEX=position, MUSTER_INDEXES="3 7 12")
    assert (ran.payload["index"], ran.item["stdout"]) == (index, [index])


def test_the_script_finds_the_hardware_facts(shell, tmp_path):
    facts = tmp_path / "facts.json"
    script = b'cat "$MUSTER_HWINFO"\n'
    ran = run_collector(shell, tmp_path, script, MUSTER_HWINFO=str(facts), MUSTER_NODE_NAME='a "quoted" \\ node\tname')
    seen = ran.item["stdout"]
    assert ran.item["stdout_json"] is True
    assert seen == json.loads(facts.read_text())
    assert seen["node"]["name"] == 'a "quoted" \\ node name'
    after = ran.payload["hwinfo"]
    for part in ("cpu", "memory", "numa", "gpus", "limits", "kernel", "os", "virtualized", "node", "schema"):
        assert seen[part] == after[part], part


@pytest.mark.parametrize("measured", ["python3", "shell"])
def test_the_script_sees_the_environment_unchanged(some_shell, measured, tmp_path):
    path = SYSTEM_PATH if measured == "python3" else small_path(tmp_path)
    words = set(re.findall(r"\b[a-zA-Z][a-zA-Z0-9_]*\b", COLLECTOR.read_text()))
    own = {
        word
        for word in words
        if word.startswith(("c_", "MUSTER_", "LC_")) or word in ("PATH", "IFS", "TMPDIR", "wrapper", "collector")
    }
    given = dict.fromkeys(sorted(words - own), "kept")
    ran = run_collector(some_shell, tmp_path, b"/usr/bin/env\n", PATH=path, **given)
    seen = dict(line.split("=", 1) for line in ran.item["stdout"].splitlines())
    assert {name: seen.get(name) for name in given} == given
    assert [name for name in seen if name.startswith("c_")] == []


def test_a_script_killed_by_a_signal(shell, tmp_path):
    ran = run_collector(shell, tmp_path, b"#!/bin/sh\necho before\nkill -9 $$\n")
    assert (ran.code, ran.item["exit_code"], ran.item["signal"]) == (137, 137, 9)
    assert ran.item["stdout"] == "before\n"
    assert ran.item["message"] == "the script was ended by signal 9"


def test_a_daemon_that_holds_the_output_open(shell, tmp_path):
    ran = run_collector(shell, tmp_path, b"#!/bin/sh\nsleep 30 &\necho $!\n")
    daemon = int(ran.item["stdout"])
    try:
        assert ran.code == 0
        assert alive(daemon)
        assert ran.payload["output_held"] is True
        assert "held its output open" in ran.item["message"]
        assert ran.item["reason"] is None
    finally:
        os.kill(daemon, signal.SIGKILL)


def test_fifty_megabytes_are_cut_in_the_middle(shell, tmp_path):
    script = b"#!/bin/sh\nprintf begin\nhead -c 50000000 /dev/zero | tr '\\000' x\nprintf end\necho short >&2\n"
    ran = run_collector(shell, tmp_path, script, MUSTER_OUTPUT_BYTES="1000")
    assert ran.code == 0
    assert ran.payload["stdout"]["bytes"] == 50_000_008
    assert ran.item["truncated"] == {"stdout": 50_000_008 - 1000, "stderr": 0}
    head, tail = ran.item["stdout"].split("\n[... 49999008 bytes left out ...]\n")
    assert head == "begin" + "x" * 495
    assert tail == "x" * 497 + "end"
    assert ran.item["stderr"] == "short\n"


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 19, 20, 21])
def test_every_byte_below_the_limit_is_kept_once(size, tmp_path):
    text = "abcdefghijklmnopqrstuvwxyz"[:size]
    ran = run_collector("dash", tmp_path, f"printf %s '{text}'\n".encode(), MUSTER_OUTPUT_BYTES="20")
    kept = text if size <= 20 else text[:10] + "\n[... 1 bytes left out ...]\n" + text[-10:]
    assert ran.item["stdout"] == kept
    assert ran.item["truncated"]["stdout"] == max(0, size - 20)


def test_bytes_that_are_no_text(shell, tmp_path):
    ran = run_collector(shell, tmp_path, b"#!/bin/sh\nprintf 'a\\000\\377\\200b'\n")
    assert base64.b64decode(ran.payload["stdout"]["head"]) == b"a\x00\xff\x80b"
    assert ran.item["stdout"] == "a\x00��b"


@pytest.mark.parametrize(
    ("script", "stdout"),
    [
        (b"#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:])\n", "['a b', '*', '']\n"),
        (b'#!/usr/bin/perl -w\nprint join("|", @ARGV), $^W;\n', "a b|*|1"),
        (b'#!/bin/sh -eu\nprintf "%s|" "$@" "${-##*u*}${-##*e*}"\n', "a b|*|||"),
        (b'#!  /bin/sh\t-e  \nprintf "%s|" "$@"\n', "a b|*||"),
        (b'printf "%s|" "$@"\n', "a b|*||"),
        (b"#!/usr/bin/env -S sh -e\nfalse\necho never\n", ""),
    ],
)
def test_the_first_line_chooses_the_interpreter(some_shell, tmp_path, script, stdout):
    if b"perl" in script and not os.path.exists("/usr/bin/perl"):
        pytest.skip("perl is not on this machine")
    ran = run_collector(some_shell, tmp_path, script, "a b", "*", "")
    assert ran.item["stdout"] == stdout


def test_a_given_interpreter_wins(some_shell, tmp_path):
    ran = run_collector(some_shell, tmp_path, b"#!/nowhere\nprint(1 + 1)\n", MUSTER_INTERPRETER="python3 -u")
    assert (ran.code, ran.item["stdout"]) == (0, 2)


@pytest.mark.parametrize(
    ("script", "settings", "words"),
    [
        (b"#!/no/such/thing -x\n", {}, "the interpreter /no/such/thing, which the first line of the script names"),
        (b"#!/bin/sh\r\necho hi\r\n", {}, "saved with CRLF line ends"),
        (b"#!/usr/bin/env python3\r\nprint()\r\n", {}, "saved with CRLF line ends"),
        (
            b"true\n",
            {"MUSTER_INTERPRETER": "no-such-program -u"},
            "the interpreter no-such-program is not in the image",
        ),
        (b"true\n", {"MUSTER_SCRIPT": "/no/such/script"}, "the script /no/such/script cannot be read"),
        (b"true\n", {"MUSTER_WORKDIR": "/no/such/folder"}, "the directory /no/such/folder cannot be entered"),
    ],
)
def test_a_script_that_cannot_start_says_why(some_shell, tmp_path, script, settings, words):
    ran = run_collector(some_shell, tmp_path, script, **settings)
    assert ran.code == ran.item["exit_code"] == 127
    assert words in ran.item["stderr"]
    assert ran.item["reason"] == "script_failed"


def test_the_working_directory(some_shell, tmp_path):
    (tmp_path / "there").mkdir()
    ran = run_collector(some_shell, tmp_path, b"pwd\n", MUSTER_WORKDIR=str(tmp_path / "there"))
    assert ran.item["stdout"] == f"{tmp_path}/there\n"


def test_warm_up_runs_do_not_count_but_their_failures_are_told(shell, tmp_path):
    script = f"""#!/bin/sh
echo run >>{tmp_path}/runs
[ "$(wc -l <{tmp_path}/runs)" -eq 2 ] && echo "too cold" >&2 && exit 4
echo "$(wc -l <{tmp_path}/runs)"
"""
    ran = run_collector(shell, tmp_path, script.encode(), MUSTER_WARMUP="2")
    assert ran.code == 0
    assert ran.item["stdout"] == 3
    assert ran.item["reason"] is None
    assert ran.item["message"] == "warm-up run 2 ended with exit code 4: too cold"
    assert ran.payload["warmup"]["runs"] == 2


@pytest.mark.parametrize("measured", ["python3", "shell"])
def test_sigterm_ends_the_script_and_still_gives_a_result(shell, measured, tmp_path):
    path = SYSTEM_PATH if measured == "python3" else small_path(tmp_path)
    script = f"#!/bin/sh\necho begun\nsleep 50 >/dev/null 2>&1 &\necho $! >{tmp_path}/child\nwait\necho never\n"
    process = start_collector(shell, tmp_path, script.encode(), PATH=path)
    child = int(wait_for_file(tmp_path / "child", process))
    process.send_signal(signal.SIGTERM)
    ran = finish_collector(process)
    if alive(child):
        os.kill(child, signal.SIGKILL)
        assert measured == "shell", "without setsid only the script itself can be reached"
    assert ran.payload["terminated"] is True
    assert (ran.code, ran.item["exit_code"], ran.item["signal"]) == (143, 143, 15)
    assert ran.item["stdout"] == "begun\n"
    assert ran.item["reason"] == "cancelled"


@pytest.mark.parametrize("measured", ["python3", "shell"])
def test_a_script_that_ignores_sigterm_is_killed(some_shell, measured, tmp_path):
    path = SYSTEM_PATH if measured == "python3" else small_path(tmp_path)
    script = f"#!/bin/sh\ntrap '' TERM\necho ready >{tmp_path}/ready\nwhile :; do sleep 0.1; done\n"
    process = start_collector(some_shell, tmp_path, script.encode(), PATH=path, MUSTER_GRACE="1")
    wait_for_file(tmp_path / "ready", process)
    process.send_signal(signal.SIGTERM)
    ran = finish_collector(process)
    assert (ran.code, ran.item["signal"], ran.payload["terminated"]) == (137, 9, True)


def test_a_signal_that_comes_before_the_collector_knows_whom_it_started_is_told(shell, tmp_path):
    slow = tmp_path / "slow.sh"
    before, line, after = COLLECTOR.read_text().partition("  c_runner=$!\n")
    slow.write_text(f"{before}  sleep 2\n{line}{after}")
    script = f"#!/bin/sh\necho ready >{tmp_path}/ready\nwhile :; do sleep 0.1; done\n"
    process = start_collector(shell, tmp_path, script.encode(), collector=slow, MUSTER_GRACE="1")
    wait_for_file(tmp_path / "ready", process)
    process.send_signal(signal.SIGTERM)
    ran = finish_collector(process)
    assert (ran.code, ran.payload["terminated"]) == (143, True)


def test_an_image_with_few_programs(shell, tmp_path):
    script = b"#!/bin/sh\ni=0\nwhile [ $i -lt 60000 ]; do i=$((i + 1)); done\nprintf '\\377\\000%s' \"$i\"\n"
    ran = run_collector(shell, tmp_path, script, PATH=small_path(tmp_path), MUSTER_OUTPUT_BYTES="7")
    assert ran.code == 0
    assert ran.payload["usage"]["source"] == "proc"
    assert base64.b64decode(ran.payload["stdout"]["head"]) == b"\xff\x006"
    assert ran.item["truncated"]["stdout"] == 1
    assert ran.item["usage"]["user_seconds"] > 0
    assert ran.item["usage"]["minor_faults"] > 10
    assert ran.item["usage"]["max_rss_bytes"] > 100_000
    assert ran.item["usage"]["ru_nvcsw"] is None
    assert ran.item["hwinfo"]["absent"]["usage.ru_nvcsw"] == "python3 is not in the image"
    assert ran.item["hwinfo"]["cpu"]["threads"] == os.cpu_count()


def test_base64_by_hand_for_every_length(tmp_path):
    for size in (1, 2, 57):
        script = f"head -c {size} {tmp_path}/all\n".encode()
        (tmp_path / "all").write_bytes(bytes(range(256)))
        ran = run_collector("dash", tmp_path, script, PATH=small_path(tmp_path))
        assert base64.b64decode(ran.payload["stdout"]["head"]) == bytes(range(size))


def test_usage_with_python3(shell, tmp_path):
    script = b"#!/usr/bin/env python3\nkept = bytearray(80_000_000)\n"
    ran = run_collector(shell, tmp_path, script)
    usage = ran.item["usage"]
    assert usage["max_rss_bytes"] > 80_000_000
    assert usage["minor_faults"] > 1000
    assert usage["user_seconds"] + usage["system_seconds"] > 0
    assert all(isinstance(usage[name], int | float) for name in usage if name != "cgroup_memory_peak_bytes")


def test_a_python3_that_does_not_work_is_done_without(shell, tmp_path):
    path = small_path(tmp_path)
    broken = tmp_path / "few-programs" / "python3"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    (tmp_path / "few-programs" / "base64").symlink_to("/usr/bin/base64")
    script = f"#!/bin/sh\necho once >>{tmp_path}/runs\n"
    ran = run_collector(shell, tmp_path, script.encode(), PATH=path)
    assert ran.code == 0
    assert (tmp_path / "runs").read_text() == "once\n"
    assert ran.item["message"] == "python3 is in the image but does not work"


def test_a_script_that_closes_its_output(shell, tmp_path):
    ran = run_collector(shell, tmp_path, b"#!/bin/sh\nexec >&- 2>&-\nexit 5\n")
    assert (ran.code, ran.item["stdout"], ran.item["stderr"]) == (5, "", "")


def test_a_script_that_removes_everything_it_can_reach(shell, tmp_path):
    ran = run_collector(shell, tmp_path, f"#!/bin/sh\nrm -rf {tmp_path}/work/* {tmp_path}/script-as-given\n".encode())
    assert (ran.code, ran.item["exit_code"]) == (0, 0)


def test_live_output_comes_before_the_frame(shell, tmp_path):
    script = b"#!/bin/sh\necho one\necho two >&2\nprintf '%s' '-----BEGIN MUSTER RESULT v1 2 '\n"
    ran = run_collector(shell, tmp_path, script, MUSTER_LIVE="1")
    before = ran.log[: ran.log.rindex(b"-----BEGIN")]
    assert before.endswith(b"\n")
    assert b"one\n" in before
    assert b"two\n" in before
    assert ran.item["stdout"] == "one\n-----BEGIN MUSTER RESULT v1 2 "


def fake_program(tmp_path, name, text):
    """A PATH on which one more program says something."""
    folder = tmp_path / "fakes"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    (folder / name).chmod(0o755)
    return f"{folder}:{SYSTEM_PATH}"


@pytest.mark.parametrize(
    ("name", "text", "gpus"),
    [
        (
            "nvidia-smi",
            "NVIDIA A100-SXM4-40GB, GPU-1, 550.54.15, 40960, 8.0\nNVIDIA L4, GPU-2, 550.54.15, 23034, 8.9",
            [
                ("nvidia", "NVIDIA A100-SXM4-40GB", "GPU-1", 40960 << 20, "550.54.15", "compute capability 8.0"),
                ("nvidia", "NVIDIA L4", "GPU-2", 23034 << 20, "550.54.15", "compute capability 8.9"),
            ],
        ),
        ("nvidia-smi", "No devices were found", []),
        (
            "amd-smi",
            "gpu,market_name,asic_serial,size,driver_version\n0,AMD Instinct MI300X,0xAB,196608,6.8.5",
            [("amd", "AMD Instinct MI300X", "0xAB", 196608 << 20, "6.8.5", None)],
        ),
        (
            "rocm-smi",
            "device,Unique ID,VRAM Total Memory (B),Card Series,Driver version\ncard0,0x1,68702699520,MI210,6.3",
            [("amd", "MI210", "0x1", 68702699520, "6.3", None)],
        ),
    ],
)
def test_gpus_as_the_makers_tools_list_them(some_shell, tmp_path, name, text, gpus):
    ran = run_collector(some_shell, tmp_path, b"true\n", PATH=fake_program(tmp_path, name, text))
    keys = ("vendor", "product", "uuid", "memory_bytes", "driver", "runtime")
    assert ran.item["hwinfo"]["gpus"] == [dict(zip(keys, values, strict=True)) for values in gpus]


def test_a_program_it_cannot_do_without_is_named(shell, tmp_path):
    path = small_path(tmp_path)
    (tmp_path / "few-programs" / "mkdir").unlink()
    ran = run_collector(shell, tmp_path, b"true\n", PATH=path)
    if shell == "busybox":
        # It brings its own mkdir.
        assert ran.code == 0
    else:
        assert ran.code == 125
        assert ran.stderr == b"collector: the image lacks programs the collector needs: mkdir\n"


def test_the_file_is_free_to_be_mounted_into_any_image():
    assert COLLECTOR.read_text().splitlines()[3].endswith(" BSD-2-Clause")
    assert COLLECTOR.stat().st_size < 100_000


def test_values_of_secrets_are_masked_in_all_that_is_kept_and_shown(shell, tmp_path):
    word, url, lines = "s3cr/et.*[x]$&^\\w", "https://me:pass-word@example.com/x", "first line\nsecond-line"
    folder = tmp_path / "two words"
    folder.mkdir()
    (folder / "key").write_text(lines)
    (tmp_path / "alone").write_text("a-single-file\n")
    coded = base64.b64encode(word.encode()).decode()
    script = f"""#!/bin/sh
printf 'word %s again %s\\n' "$WORD" "$WORD"
echo {coded}
echo pass-word "$SHORT" and more >&2
echo "$ADDRESS" >&2
cat '{folder}/key' '{tmp_path}/alone'
printf '\\200\\377 no end'
"""
    ran = run_collector(
        shell,
        tmp_path,
        script.encode(),
        WORD=word,
        ADDRESS=url,
        SHORT="abc",
        MUSTER_LIVE="1",
        MUSTER_WARMUP="1",
        MUSTER_SECRET_VARIABLES="WORD ADDRESS SHORT MISSING",
        MUSTER_SECRET_PATHS=f"{folder}\n{tmp_path}/alone\n/nonexistent",
    )
    mask = "*" * 8
    assert ran.code == 0, ran.stderr
    assert ran.item["stderr"] == f"{mask} abc and more\n{mask}\n"
    # The second line of the file goes on in the next file.
    assert ran.item["stdout"] == f"word {mask} again {mask}\n{mask}\n{mask}\n{mask}{mask}\n\ufffd\ufffd no end"
    shown = ran.log + base64.b64decode(b"".join(ran.log.split(b"-----\n")[1].split(b"-----")[0].split()))
    assert not [
        value for value in (word, "pass-word", "second-line", "a-single-file", coded) if value.encode() in shown
    ]
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["hwinfo.json"]


def test_an_image_that_cannot_mask_secrets_is_refused(tmp_path):
    ran = run_collector(
        # The shell of busybox has all programs in itself.
        checked("dash"),
        tmp_path,
        b'#!/bin/sh\necho "$WORD"\n',
        WORD="something",
        PATH=small_path(tmp_path),
        MUSTER_SECRET_VARIABLES="WORD",
    )
    assert ran.code == 125
    assert b"needs to mask secrets: sed sort" in ran.stderr
    assert b"something" not in ran.log
