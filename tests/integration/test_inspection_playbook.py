# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook inspection and the guide, as users run them, on a node that really runs pods."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.page import sections_of_page
from ansible_collections.muster.kube.tests.support.play import run_playbook
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE, running_real_cluster
from ansible_collections.muster.kube.tests.tools.page_playbook import plays_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "inspect.md"
RUN = {"requests": {"cpu": "200m", "memory": "64Mi"}, "hardware": {"node_selector": ON_REAL_NODE}}


def table_of(printed, *names):
    """The words of those lines of the printed table that begin with these names."""
    lines = [line.strip().strip('",') for line in printed.splitlines() if line.strip().startswith('"')]
    return [line.split() for line in lines if line.startswith(names)]


@pytest.fixture
def settings(real_cluster, real_namespace, tmp_path):
    """Writes the variables of the playbook."""

    def write(**more):
        image = real_cluster.busybox_image()
        variables = {
            "inspection_kubeconfig": real_cluster.kubeconfig,
            "inspection_namespace": real_namespace,
            "inspection_stacks": [
                {"name": "short", "image": image, "env": {"ROUNDS": "1"}},
                {"name": "long", "image": image, "env": {"ROUNDS": "2000"}},
            ],
            "inspection_script": "i=0; while [ $i -lt $ROUNDS ]; do i=$((i + 1)); done; echo $i",
            "inspection_repetitions": 4,
            "inspection_parallelism": 2,
            "inspection_run": RUN,
            "inspection_metrics": [{"metric": "stdout", "title": "Rounds"}],
            **more,
        }
        path = tmp_path / "stacks.json"
        path.write_text(json.dumps(variables), encoding="utf-8")
        return f"@{path}"

    return write


def play_guide(real_cluster, namespace, directory):
    """Play the guide twice; only the cluster, the namespace and the image are others. What was printed, each time."""
    text = plays_of(GUIDE.read_text(encoding="utf-8"), own_cluster=True)
    for old, new in (
        ("namespace: default", f"namespace: {namespace}"),
        ("docker.io/library/python:3.13-slim", real_cluster.python_image()),
        (
            "            memory: 128Mi\n",
            '            memory: 128Mi\n          hardware: {node_selector: {muster.kube/real: "true"}}\n',
        ),
    ):
        assert old in text
        text = text.replace(old, new)
    (directory / "guide.yml").write_text(text, encoding="utf-8")
    return [run_playbook(directory, "guide.yml", KUBECONFIG=real_cluster.kubeconfig) for _time in range(2)]


@pytest.fixture(scope="module")
def guide(real_cluster, tmp_path_factory):
    """The plays of the guide, while another test runs, and the directory they are played in."""
    directory = tmp_path_factory.mktemp("guide")
    space = real_cluster.live.namespace("inspection-guide")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        yield pool.submit(play_guide, real_cluster, space, directory), directory
    real_cluster.live.clear_namespace(space)


@pytest.mark.usefixtures("guide")  # played at the same time
def test_stacks_are_inspected_compared_drawn_and_checked(settings, tmp_path, real_cluster):
    page = tmp_path / "inspection.html"
    printed, code = run_playbook(tmp_path, "muster.kube.inspection", "--check", "-e", settings())
    assert code == 0, printed
    assert not page.exists()
    printed, code = run_playbook(tmp_path, "muster.kube.inspection", "-e", settings())
    assert code == 0, printed
    assert table_of(printed, "short", "long") == [
        ["short", "4", "1", "1", "–", "1"],
        ["long", "4", "2000", "2000", "–", "2000", "+199900.0", "%", "0.029", "5", "%", "worse"],
    ]
    assert [kind for kind, _title, _digest in sections_of_page(page.read_text(encoding="utf-8")) or ()] == [
        "inspections"
    ]
    image = real_cluster.busybox_image()
    # Of the stack that is there both cells have stored results.
    rounds = {"1": {"env": {"ROUNDS": "1"}}, "2000": {"env": {"ROUNDS": "2000"}}}
    strict = settings(
        inspection_stacks=[
            {"name": "there", "image": image},
            {"name": "gone", "image": f"{real_cluster.registry}/nonsuch:1"},
        ],
        inspection_matrix={"axes": {"rounds": rounds}, "fail_fast": True},
        inspection_metrics=[{"metric": "stdout", "target": 2, "lower": -0.1}],
        inspection_start_timeout="20",
        inspection_repetitions=4,
        inspection_fail_when_worse=True,
    )
    printed, code = run_playbook(tmp_path, "muster.kube.inspection", "-e", strict)
    assert code != 0
    assert "gone rounds=1: image_pull" in printed
    assert "gone rounds=2000: cancelled: it was left out, since another cell failed" in printed
    assert table_of(printed, "there rounds=")[1][-6:] == ["+199900.0", "%", "0.029", "5", "%", "worse"]
    # The page was written all the same, and the stored results of the other stack were used.
    assert "nonsuch" in page.read_text(encoding="utf-8")
    alone = settings(
        inspection_stacks=[],
        inspection_matrix={"axes": {"stack": {"short": {"image": image, "env": {"ROUNDS": "1"}}}}},
        inspection_metrics=[{"metric": "stdout", "target": 2, "lower": -0.1}],
    )
    printed, code = run_playbook(tmp_path, "muster.kube.inspection", "-e", alone)
    assert code != 0
    assert '\\"target\\": 2.0' in printed or '"target": 2.0' in printed


def test_the_plays_of_the_guide_work_as_they_are(guide):
    played, directory = guide
    for printed, code in played.result():
        assert code == 0, printed
        assert "Succeeded, 3 runs" in printed
        assert "long is worse" in printed
    assert (directory / "inspect.html").is_file()


@pytest.mark.full
def test_the_demo_builds_and_compares_two_stacks(tmp_path):
    name = f"demo-inspect-{os.getpid()}"
    with running_real_cluster(name) as cluster:
        variables = {
            "demo_cluster": name,
            "demo_base": cluster.base_image(),
            "demo_builder": cluster.builder_image(),
            "demo_directory": str(tmp_path),
        }
        printed, code = run_playbook(tmp_path, "muster.kube.demo_inspect", "-e", json.dumps(variables))
    assert code == 0, printed
    assert "zstd" in printed
    page = (tmp_path / "demo_inspect.html").read_text(encoding="utf-8")
    assert "Packages that differ" in page
