# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A chart is the one that was asked for, wherever it comes from."""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
import tarfile

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.chart import located_chart
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_program import open_helm
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_source import HelmSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.tests.support.helm_program import written_helm

ABOUT = "apiVersion: v2\nname: widget\nversion: 1.2.3\nappVersion: '9'\n"
TOLD = f"sha256:{'1' * 64}"


@pytest.fixture
def helm(tmp_path):
    """A helm that fetches what lies beside it."""
    return open_helm({"PATH": os.environ["PATH"]}, dict, written_helm(tmp_path))


@pytest.fixture
def folder(tmp_path):
    """A chart in a folder."""
    chart = tmp_path / "widget"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(ABOUT, encoding="utf-8")
    (chart / "templates" / "a.yaml").write_text("a", encoding="utf-8")
    return chart


def archive(path, files):
    """An archive of these files; returns its digest."""
    with tarfile.open(path, "w:gz") as packed:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            packed.addfile(member, io.BytesIO(text.encode()))
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def source(chart, **more):
    return HelmSource("widgets", str(chart), "w", "home", **more)


def located(helm, wanted):
    """The chart, and whether it was still there."""
    with located_chart(helm, wanted) as chart:
        assert pathlib.Path(chart.path).exists()
        return chart


def test_a_folder_is_used_where_it_lies(helm, folder):
    chart = located(helm, source(folder, version="1.2.3"))
    assert (chart.path, chart.name, chart.version, chart.app_version) == (str(folder), "widget", "1.2.3", "9")
    assert located(helm, source(folder, digest=chart.digest)) == chart


@pytest.mark.parametrize("change", ["content", "name", "more"])
def test_any_change_of_a_folder_changes_its_digest(helm, folder, change):
    before = located(helm, source(folder)).digest
    template = folder / "templates" / "a.yaml"
    if change == "content":
        template.write_text("b", encoding="utf-8")
    elif change == "name":
        template.rename(template.with_name("b.yaml"))
    else:
        (folder / "values.yaml").write_text("", encoding="utf-8")
    with pytest.raises(BadInput, match=rf"chart .*widget: its digest is sha256:\w+ and not {before}"):
        located(helm, source(folder, digest=before))


def test_an_archive_is_known_by_its_sha256(helm, tmp_path):
    digest = archive(tmp_path / "w.tgz", {"widget/a/Chart.yaml": "no", "widget/Chart.yaml": ABOUT})
    assert located(helm, source(tmp_path / "w.tgz", digest=digest)).version == "1.2.3"
    with pytest.raises(BadInput, match=f"its digest is {digest} and not {TOLD}"):
        located(helm, source(tmp_path / "w.tgz", digest=TOLD))


@pytest.mark.parametrize("digest", [None, "own", TOLD])
@pytest.mark.parametrize(
    ("chart", "more"),
    [("oci://example.com/widget", {}), ("widget", {"repository": "https://example.com"}), ("known/widget", {})],
)
def test_a_chart_from_elsewhere_is_fetched_and_gone_afterwards(helm, tmp_path, chart, more, digest):
    own = archive(tmp_path / "archive", {"widget/Chart.yaml": ABOUT})
    found = located(helm, source(chart, digest=own if digest == "own" else digest, version=">=1", **more))
    assert (found.name, found.digest) == ("widget", own)
    assert not pathlib.Path(found.path).exists()


def test_a_fetched_chart_with_another_digest_is_refused(helm, tmp_path):
    archive(tmp_path / "archive", {"widget/Chart.yaml": ABOUT})
    with pytest.raises(BadInput, match="its digest is"):
        located(helm, source("oci://example.com/widget", digest=f"sha256:{'2' * 64}"))


def test_a_chart_that_cannot_be_fetched_is_told_in_the_words_of_helm(helm, tmp_path):
    (tmp_path / "fails").write_text("Error: no such host\n", encoding="utf-8")
    with pytest.raises(MusterError, match=r"Cannot fetch chart oci://example\.com/widget: no such host"):
        located(helm, source("oci://example.com/widget"))


@pytest.mark.parametrize("chart", ["./nowhere", "/nowhere/w.tgz", "nowhere", "a/b/c"])
def test_a_chart_that_is_not_there_is_told(helm, chart):
    with pytest.raises(BadInput, match="there is no such file or folder"):
        located(helm, source(chart))


def test_what_is_no_chart_is_told(helm, tmp_path, folder):
    (tmp_path / "text.tgz").write_text("no archive", encoding="utf-8")
    with pytest.raises(BadInput, match=r"Cannot read component widgets: chart .*text\.tgz"):
        located(helm, source(tmp_path / "text.tgz"))
    archive(tmp_path / "empty.tgz", {"widget/values.yaml": ""})
    with pytest.raises(BadInput, match=r"it is no chart: there is no Chart\.yaml in it"):
        located(helm, source(tmp_path / "empty.tgz"))
    (folder / "Chart.yaml").write_text("[]", encoding="utf-8")
    with pytest.raises(BadInput, match=r"Chart\.yaml: it is no mapping"):
        located(helm, source(folder))
    (folder / "Chart.yaml").unlink()
    with pytest.raises(BadInput, match="No such file"):
        located(helm, source(folder))


def test_a_chart_of_another_version_is_refused(helm, folder):
    with pytest.raises(BadInput, match=r"its version is 1\.2\.3 and not 2\.0\.0"):
        located(helm, source(folder, version="2.0.0"))
