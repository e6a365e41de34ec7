# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names and addresses of a real node, and the kernel's tables."""

from __future__ import annotations

import ipaddress
import pathlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.real_node import (
    SOCKET_PATH_LIMIT,
    Mount,
    cgroup_directories,
    check_data_path,
    choose_subnet,
    mounts_below,
    network_name,
    node_address,
    parse_addresses,
    parse_mounts,
    parse_routes,
    sandbox_ids,
    sandbox_image,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError

ROUTES = """Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
br0\t0000D50A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""
MOUNTINFO = """22 1 8:1 / / rw shared:1 - ext4 /dev/sda rw
30 22 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
31 22 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
40 22 0:30 / /c/a\\040b/volume rw master:2 shared:3 - tmpfs tmpfs rw
41 40 0:31 / /c/a\\040b/volume/deeper rw - overlay overlay rw
42 22 0:32 / /c/other rw - tmpfs tmpfs rw
"""


def test_names_fit_into_what_the_kernel_takes():
    assert network_name("0123456789abcdef") == "muster-01234567"
    assert len(network_name("0123456789abcdef")) <= 15


def test_the_node_has_the_first_address_of_its_network():
    assert node_address("10.213.4.0/24") == "10.213.4.1"


def test_the_addresses_of_an_interface_are_read():
    listing = (
        "7: muster-01234567    inet 10.213.1.1/24 scope global muster-01234567\\       valid_lft forever\n"
        "7: muster-01234567    inet 10.96.0.1/32 scope global muster-01234567\\       valid_lft forever\n"
        "7: muster-01234567    inet6 fe80::1/64 scope link\n"
        "odd\n"
    )
    assert parse_addresses(listing) == ["10.213.1.1/24", "10.96.0.1/32"]
    assert parse_addresses("") == []


def test_routes_are_read():
    assert [str(network) for network in parse_routes(ROUTES)] == ["0.0.0.0/0", "10.213.0.0/24"]


def test_a_line_of_the_routes_that_ends_with_its_mask_counts():
    cut = "\n".join("\t".join(line.split()[:8]) for line in ROUTES.splitlines())
    assert parse_routes(cut) == parse_routes(ROUTES)
    assert parse_routes(ROUTES + "lo\t00000000\n") == parse_routes(ROUTES)


def test_a_subnet_is_taken_that_nobody_has():
    assert choose_subnet([], []) == "10.213.0.0/24"
    assert choose_subnet(["10.213.1.0/24"], parse_routes(ROUTES)) == "10.213.2.0/24"


def test_a_full_range_is_told():
    with pytest.raises(MusterError, match=r"every part of 10\.213\.0\.0/16 is in use"):
        choose_subnet([], [ipaddress.IPv4Network("10.0.0.0/8")])


def test_mounts_below_a_directory_come_last_first():
    mounts = parse_mounts(MOUNTINFO)
    assert mounts_below(mounts, pathlib.PurePath("/c/a b")) == ["/c/a b/volume/deeper", "/c/a b/volume"]
    assert mounts_below(mounts, pathlib.PurePath("/c/oth")) == []


def test_cgroups_are_found_by_kind():
    mounts = parse_mounts(MOUNTINFO)
    assert cgroup_directories(mounts, "n", ("cgroup",)) == ["/sys/fs/cgroup/cpu/n"]
    assert cgroup_directories(mounts, "n", ("cgroup", "cgroup2")) == [
        "/sys/fs/cgroup/cpu/n",
        "/sys/fs/cgroup/unified/n",
    ]
    assert cgroup_directories([Mount("/sys/fs/cgroup", "cgroup2")], "n", ("cgroup2",)) == ["/sys/fs/cgroup/n"]


def test_a_path_too_long_for_sockets_is_refused():
    check_data_path(pathlib.PurePath("/" + "a" * (SOCKET_PATH_LIMIT - 1)))
    with pytest.raises(BadInput, match="too long for the sockets"):
        check_data_path(pathlib.PurePath("/" + "a" * SOCKET_PATH_LIMIT))


def test_records_of_pods_are_told_from_those_of_others():
    assert sandbox_ids("muster-1", ["muster-1-abc-eth0", "muster-12-def-eth0", "cni-loopback-abc-lo"]) == ["abc"]


def test_the_image_of_pause_is_named_by_its_build():
    assert sandbox_image(pathlib.PurePath("/x/pause-0123")) == "localhost/muster/pause:0123"
