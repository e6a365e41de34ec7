# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values of the real node of a local cluster: its names and addresses, and how the kernel's tables are read."""

from __future__ import annotations

import collections.abc
import dataclasses
import ipaddress
import pathlib
import re

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError

# Each cluster uses one subnet of this range for its pods.
POD_RANGE = ipaddress.IPv4Network("10.213.0.0/16")
SUBNET_PREFIX = 24
# Where pods look for the API server: the first address of the range of Services, the same in every cluster.
SERVICE_ADDRESS = "10.96.0.1"
# The kernel's limit for the path of a socket, less the longest name that containerd and the kubelet put below `data`.
SOCKET_PATH_LIMIT = 107 - len("/kubelet/pod-resources/0123456789ab")
OCTAL = re.compile(r"\\([0-7]{3})")


@dataclasses.dataclass(frozen=True, slots=True)
class Mount:
    """One line of the kernel's table of mounts."""

    point: str
    kind: str


def network_name(uid: str) -> str:
    """The name of bridge, pod network and cgroup of a cluster; the kernel takes at most 15 characters."""
    return f"muster-{uid[:8]}"


def node_address(subnet: str) -> str:
    """The address of the node: the first of its pod network, which the bridge has."""
    return str(next(ipaddress.IPv4Network(subnet).hosts()))


def hardware_address(address: str) -> str:
    """The hardware address of the interface that has an IPv4 address: locally administered, so that it is nobody's."""
    return "0a:58:" + ipaddress.IPv4Address(address).packed.hex(":")


def sandbox_image(program_directory: pathlib.PurePath) -> str:
    """The name of the image of pause; it changes with everything that goes into the program."""
    return f"localhost/muster/pause:{program_directory.name.rpartition('-')[2]}"


def choose_subnet(taken: collections.abc.Iterable[str], routes: collections.abc.Iterable[ipaddress.IPv4Network]) -> str:
    """A pod network that no other cluster remembers and no route of this machine touches."""
    used = [ipaddress.IPv4Network(item) for item in taken] + [item for item in routes if item.prefixlen > 0]
    for subnet in POD_RANGE.subnets(new_prefix=SUBNET_PREFIX):
        if not any(subnet.overlaps(other) for other in used):
            return str(subnet)
    raise MusterError("choose", "a pod network", f"every part of {POD_RANGE} is in use")


def parse_routes(table: str) -> list[ipaddress.IPv4Network]:
    """The networks of /proc/net/route, whose numbers are hexadecimal in the order of the machine (little endian)."""
    networks = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8:
            continue
        address, mask = (bytes.fromhex(fields[at])[::-1] for at in (1, 7))
        networks.append(
            ipaddress.IPv4Network(f"{ipaddress.IPv4Address(address)}/{ipaddress.IPv4Address(mask)}", strict=False)
        )
    return networks


def parse_addresses(listing: str) -> list[str]:
    """The addresses with their prefix lengths in what `ip -oneline address show` prints."""
    lines = (line.split() for line in listing.splitlines())
    return [fields[3] for fields in lines if len(fields) > 3 and fields[2] == "inet"]


def parse_mounts(mountinfo: str) -> list[Mount]:
    """The mounts of /proc/self/mountinfo, in the order in which they were made."""
    mounts = []
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        if separator:
            point = OCTAL.sub(lambda match: chr(int(match.group(1), 8)), before.split(" ")[4])
            mounts.append(Mount(point, after.split(" ")[0]))
    return mounts


def mounts_below(mounts: collections.abc.Iterable[Mount], directory: pathlib.PurePath) -> list[str]:
    """Mount points inside a directory, the last one first, as they must be unmounted."""
    inside = [mount.point for mount in mounts if pathlib.PurePosixPath(mount.point).is_relative_to(directory)]
    return inside[::-1]


def cgroup_directories(mounts: collections.abc.Iterable[Mount], name: str, kinds: tuple[str, ...]) -> list[str]:
    """Where a top level cgroup lies: once in cgroup v2, once for each controller in v1."""
    points = dict.fromkeys(mount.point for mount in mounts if mount.kind in kinds)
    return [f"{point}/{name}" for point in points]


def check_data_path(data: pathlib.PurePath) -> None:
    """Refuse a directory in which the sockets of the node could not be made."""
    if len(str(data)) > SOCKET_PATH_LIMIT:
        cause = f"{data} is longer than {SOCKET_PATH_LIMIT} characters, too long for the sockets of a real node"
        raise BadInput("use", "cache", cause)


def sandbox_ids(network: str, cached: collections.abc.Iterable[str]) -> list[str]:
    """The pods whose network was recorded: names are made of network, pod and interface."""
    return [name[len(network) + 1 :].rpartition("-")[0] for name in cached if name.startswith(f"{network}-")]
