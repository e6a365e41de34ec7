# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From results of inspections to the values of a section."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.inspections.results import read_inspections
from ansible_collections.muster.kube.plugins.module_utils._model.report.inspections import FailedRun
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.inspection_cases import (
    failed_item,
    hwinfo,
    inspection,
    item,
    packages,
    section,
    two_stacks,
)


def read(*inspections, **more):
    """The section these results make."""
    return read_inspections(section(list(inspections), **more), "sections[0]")


def test_a_slower_stack_is_worse_and_its_failed_run_does_not_count():
    found = read(*two_stacks())
    (plot,) = found.plots
    old, new = plot.samples
    assert (found.title, plot.title, plot.refusal) == ("Inspections", "Wall time", None)
    assert old.change is None
    assert new.change is not None
    assert (new.change.verdict, round(new.change.percent or 0, 1)) == ("worse", 13.9)
    assert len(new.points) == 8
    assert found.failures == (FailedRun("new", 8, "oom", "the script was killed"),)
    assert [(result.runs, result.failed, result.throttled) for result in found.results] == [(8, 0, 24), (9, 1, 27)]


def test_metrics_have_their_own_direction_threshold_and_unit():
    metrics = [{"metric": "stdout.@result.rate", "direction": "higher", "unit": "1/s", "threshold": 20}]
    (plot,) = read(*two_stacks(), metrics=metrics).plots
    assert (plot.unit, plot.direction, plot.title) == ("1/s", "higher", "stdout.@result.rate")
    assert [sample.change and sample.change.verdict for sample in plot.samples] == [None, "same"]


def test_runs_without_the_metric_are_counted():
    result = inspection("a", [1.0], item(1, None))
    (plot,) = read(result).plots
    assert [(point.index, point.value) for point in plot.samples[0].points] == [(0, 1.0)]
    assert plot.samples[0].missing == 1


def test_a_metric_nobody_has_is_told():
    (plot,) = read(*two_stacks(), metrics=[{"metric": "nonsuch"}]).plots
    assert plot.refusal == "no run has a number called nonsuch"


def other_machine():
    """A result from another CPU model and kernel."""
    result = inspection("other", [1.0, 1.1, 1.2, 1.3])
    result["runs"] = [{**run, "hwinfo": {**hwinfo("node-2", model=17), "kernel": "6.1"}} for run in result["runs"]]
    return result


def test_different_hardware_is_not_compared_unless_told():
    results = [inspection("a", [1.0, 1.1, 1.2, 1.3]), other_machine()]
    found = read(*results)
    assert "different hardware: cpu.model is 1 in a, 17 in other" in (found.plots[0].refusal or "")
    assert [sample.change for sample in found.plots[0].samples] == [None, None]
    assert [(fact.name, fact.values) for fact in found.different_hardware] == [("CPU model", ("1", "17"))]
    allowed = read(*results, allow_different_hardware=True)
    assert allowed.plots[0].refusal is None
    assert allowed.plots[0].samples[1].change is not None


def test_facts_are_readable_and_unknown_ones_left_out():
    facts = {fact.name: fact for fact in read(inspection("a", [1.0]), other_machine()).hardware}
    assert facts["Memory limit"].values == ("4 GiB", "4 GiB")
    assert facts["CPU limit"].values == ("2", "2")
    assert facts["Virtualized"].values == ("no", "no")
    assert facts["GPUs"].values == ("none", "none")
    assert facts["System of the image"].values == ("Debian GNU/Linux 13 (trixie)",) * 2
    assert facts["Kernel"].differs
    assert not facts["Kernel"].decides
    assert "Frequency governor" not in facts


def test_packages_are_compared_by_kind_and_name():
    found = read(*two_stacks()).packages
    assert found is not None
    assert [(fact.name, fact.values) for fact in found.differing] == [
        ("numpy (pip)", ("2.2.0", "2.3.1")),
        ("scipy (pip)", ("absent", "1.16.0")),
    ]
    assert (found.same, found.unlisted) == (3, ())


def test_results_without_a_list_are_named_and_one_list_is_none_to_compare():
    listed = inspection("listed", [1.0], status={"build": {"packages": packages(a="1")}})
    # As inspection_info tells it.
    stored = inspection("stored", [1.0], status={"build": {"outcome": {"packages": packages(a="1")}}})
    ready = inspection("ready", [1.0])
    assert read(listed, ready).packages is None
    found = read(listed, stored, ready).packages
    assert found is not None
    assert (found.differing, found.same, found.unlisted) == ((), 3, ("ready",))


def test_an_inspection_without_runs_tells_why_it_failed():
    failed = inspection("b", [], reason="build_failed", message="no such package")
    assert read(inspection("a", [1.0]), failed).failures == (FailedRun("b", None, "build_failed", "no such package"),)
    assert read(inspection("a", [], failed_item(0), reason="oom")).failures[0].index == 0


def test_names_are_unique():
    names = [result.name for result in read(*[inspection("a", [1.0])] * 2, {"runs": []}).results]
    assert names == ["a", "a (2)", "3"]


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (section([]), "sections[0]: inspections: results of muster.kube.inspection are needed"),
        (section([inspection("a", [1.0])], metrics=[{}]), "sections[0].metrics[0]: metric: it is missing"),
        (section(["a"]), "sections[0].inspections[0]: a mapping is needed, this is a str"),
        (section([{"runs": ["x"]}]), "a mapping is needed, this is a str"),
        (section([{"runs": 5}]), "runs"),
    ],
)
def test_wrong_data_are_refused(data, cause):
    with pytest.raises(BadInput) as caught:
        read_inspections(data, "sections[0]")
    assert cause in str(caught.value)
