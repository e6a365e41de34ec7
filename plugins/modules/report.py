#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Write one HTML page that shows who waited for what and held what, or compares inspections
version_added: 0.1.0
description:
  - Writes a single HTML file from data that other modules returned. The page needs no network, no other file and no
    script to be read, follows the reader's choice of a light or dark look, and can be printed.
  - A report consists of sections, each of a type. The type V(gang_timeline) draws one row for each gang with a bar for
    each phase along a common axis of time, and below it says in a table what each gang waited for, when it started, how
    long it ran and how often it was tried.
  - The type V(inspections) draws box plots of one or more metrics with every run as a point, says whether a result is
    better or worse than the first one, and shows in tables what failed and which hardware and packages differ.
  - The type V(allocation) draws which GPUs elastic jobs held over time, one upon the other below what there is, a row
    of steps for each job with its resizes and checkpoints, and tells in tables why sizes changed, how long that took,
    and how far each training is.
  - No cluster is contacted. The page holds nothing but the given data, so that equal data make an equal file.
  - This module does one task each time it runs; there is no state to bring about besides the file.
extends_documentation_fragment:
  - muster.kube._attributes
author:
  - The muster.kube authors (@muster-kube)
attributes:
  check_mode:
    support: full
    details:
      - The page is built and compared, but not written.
  diff_mode:
    support: full
    details:
      - The difference names the sections that changed, not their HTML.
  idempotent:
    support: full
options:
  dest:
    description:
      - The file to write. Its directory must exist.
      - A new file gets the mode C(0644), an existing one keeps its mode. It is replaced in one step.
    type: path
    required: true
  title:
    description:
      - Title of the page.
    type: str
    default: Report
  sections:
    description:
      - What the page shows, in this order.
    type: list
    elements: dict
    required: true
    suboptions:
      type:
        description:
          - Type of the section.
        type: str
        required: true
        choices:
          - gang_timeline
          - inspections
          - quota_tree
          - allocation
      title:
        description:
          - Title of the section. The default is V(Gangs), V(Inspections), V(Quota) or V(GPUs over time).
        type: str
      gangs:
        description:
          - Gangs as M(muster.kube.gang_info) returns them. Used are C(name), C(namespace), C(queue), C(phase),
            C(attempt), C(submitted), C(timeline) with C(phase), C(at), C(reason), C(message), C(seconds) and
            C(waited_for), C(verdict), C(verdict_text), C(pods) and the C(podsets) of C(spec). Only C(name) is needed.
          - Decisions as M(muster.kube.dispatch) returns them, or as they stand in its decision log, may be among them.
            They have C(gang), C(at) and no C(timeline), and tell what a gang waited for at that moment. The timeline of
            a gang that is not listed itself is made from its decisions.
          - Rows are sorted by the time at which each gang was first heard of.
        type: list
        elements: dict
        default: []
      as_of:
        description:
          - When the data were read, such as V(2026-01-31T12:00:00Z). Phases that are not over are drawn up to this
            moment.
          - By default as M(muster.kube.gang_info) tells by the seconds of each gang's last phase, else the latest
            moment in the data.
        type: str
      capacity:
        description:
          - What all nodes have, by resource, as RV(muster.kube.gang_info#module:capacity). With it, what gangs or jobs
            held over time is drawn below what there is.
        type: dict
      jobs:
        description:
          - Jobs as M(muster.kube.elastic_job_info) returns them, for a section of type V(allocation); gangs as
            M(muster.kube.gang_info) returns them will do too. Used are C(name), C(namespace), C(uid), C(queue),
            C(phase), C(range) or the C(elastic) of C(spec), C(podsets) of C(spec), C(allotment), C(resize), C(sizes),
            C(timeline), C(progress) and C(restarts). Only C(name) is needed.
          - What no record noted is shown as unknown.
        type: list
        elements: dict
        default: []
      pods:
        description:
          - Pods as M(kubernetes.core.k8s_info) returns them. Those that have a node, are not over and belong to none of
            the O(sections[].jobs) are drawn as pods of others since they got their node. Those that are gone are
            unknown.
        type: list
        elements: dict
        default: []
      inspections:
        description:
          - Results as M(muster.kube.inspection) and M(muster.kube.inspection_info) return them. Others are compared
            with the first one.
          - A result is called by its C(name) if you add one, else by its C(inspection_id).
        type: list
        elements: dict
        default: []
      trees:
        description:
          - Quota trees as M(muster.kube.quota_info) returns them. Used are C(name), C(as_of), C(published), C(problem),
            C(detail), C(queues), C(fairness), C(pairs), C(unqueued) and C(drift). Only C(name) is needed.
        type: list
        elements: dict
        default: []
      metrics:
        description:
          - What is drawn and compared. The default is the wall time.
        type: list
        elements: dict
        suboptions:
          metric:
            description:
              - A path into a run of a result with dots, for example V(usage.user_seconds), or V(stdout.@result.rate)
                for a script that prints JSON.
            type: str
            required: true
          title:
            description:
              - What to call it.
            type: str
          unit:
            description:
              - The unit of its values. V(s) and V(bytes) are shown in a size that suits, and are known of metrics whose
                names end in C(_seconds) or C(_bytes).
            type: str
          direction:
            description:
              - Whether lower or higher values are better.
            type: str
            choices:
              - lower
              - higher
            default: lower
          threshold:
            description:
              - By how many percent the medians have to differ to be called better or worse.
            type: float
            default: 5.0
      allow_different_hardware:
        description:
          - Whether results from different hardware are compared. They are drawn in any case, what differs is
            marked.
        type: bool
        default: false
  template:
    description:
      - The text of the page around the sections, with the markers C(%%title%%), C(%%policy%%) and C(%%sections%%).
      - By default that of the collection, which the action plugin reads on the controller.
    type: str
  section_templates:
    description:
      - The Jinja2 templates that draw the sections, by file name. A section of a type is drawn by the template of that
        name, for example C(gang_timeline.html.j2), else by C(section.html.j2).
      - Those that are not given are the collection's own, which the action plugin reads on the controller.
    type: dict
requirements:
  - python >= 3.11
  - Jinja2 >= 3.0
notes:
  - Times are shown in UTC.
  - Whatever the data hold is shown as text. A content security policy inside the page forbids all requests and all
    scripts other than the template's own.
  - Jinja2 is there wherever Ansible runs. On another host the module needs it too.
  - A record keeps the last 20 transitions of its gang, and the last 40 entries about its sizes, so earlier ones are not
    shown.
seealso:
  - module: muster.kube.gang_info
  - module: muster.kube.elastic_job_info
  - module: muster.kube.dispatch
  - module: muster.kube.inspection
  - plugin: muster.kube.inspection_compare
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Two gangs, one of which had to wait
  muster.kube.report:
    dest: "{{ report_path | default('gangs.html') }}"
    title: Gangs of the morning
    sections:
      - type: gang_timeline
        title: Shared node
        as_of: "2026-01-31T09:05:00Z"
        gangs:
          - name: first
            namespace: default
            queue: research
            phase: complete
            timeline:
              - {phase: queued, at: "2026-01-31T09:00:00Z", reason: Submitted}
              - {phase: dispatched, at: "2026-01-31T09:00:01Z"}
              - {phase: running, at: "2026-01-31T09:00:03Z"}
              - {phase: complete, at: "2026-01-31T09:02:00Z"}
          - name: second
            namespace: default
            queue: research
            phase: running
            timeline:
              - {phase: queued, at: "2026-01-31T09:00:10Z", reason: Submitted}
              - {phase: dispatched, at: "2026-01-31T09:02:01Z"}
              - {phase: running, at: "2026-01-31T09:02:03Z"}

- name: Two stacks, five runs each
  muster.kube.report:
    dest: "{{ report_path | default('inspections.html') }}"
    title: Which one is faster?
    sections:
      - type: inspections
        metrics:
          - metric: wall_seconds
          - metric: stdout.rate
            unit: images/s
            direction: higher
        inspections:
          - name: old
            runs: "{{ old_runs | default([{'exit_code': 0, 'wall_seconds': 1.25, 'stdout': {'rate': 8.1}}]) }}"
          - name: new
            runs: "{{ new_runs | default([{'exit_code': 0, 'wall_seconds': 1.05, 'stdout': {'rate': 9.7}}]) }}"

- name: Who holds what, as quota_info told it
  muster.kube.report:
    dest: "{{ report_path | default('quota.html') }}"
    title: Our cluster
    sections:
      - type: quota_tree
        trees: "{{ quota.trees | default([{'name': 'default'}]) }}"

- name: Who held which GPUs, as elastic_job_info, gang_info and k8s_info told it
  muster.kube.report:
    dest: "{{ report_path | default('allocation.html') }}"
    title: Our GPUs
    sections:
      - type: allocation
        jobs: "{{ found.jobs | default([{'name': 'tune'}]) }}"
        capacity: "{{ all.capacity | default({'nvidia.com/gpu': '8'}) }}"
        pods: "{{ pods.resources | default([]) }}"
"""

RETURN = r"""
dest:
  description: The file, with its whole path.
  returned: success
  type: str
  sample: /home/me/gangs.html
size:
  description: Size of the page in bytes.
  returned: success
  type: int
  sample: 24518
sections:
  description: What each section holds.
  returned: success
  type: list
  elements: dict
  contains:
    type:
      description: Type of the section.
      type: str
      sample: gang_timeline
    title:
      description: Title of the section.
      type: str
      sample: Shared node
    gangs:
      description: How many gangs it shows, for a timeline.
      type: int
      sample: 2
    transitions:
      description: How many phases of gangs it shows, which is the number of bars.
      type: int
      sample: 7
    jobs:
      description: How many jobs it shows, for an allocation.
      type: int
      sample: 4
    resizes:
      description: How many changes of their sizes are known.
      type: int
      sample: 3
    trees:
      description: How many quota trees it shows, for a section of that type.
      type: int
      sample: 1
    queues:
      description: How many queues they have.
      type: int
      sample: 12
    inspections:
      description: How many inspections it compares, for a section of that type.
      type: int
    runs:
      description: How many runs they have.
      type: int
    failed_runs:
      description: How many of them failed.
      type: int
changed_sections:
  description: Titles of the sections that came, went or show something else than before.
  returned: success
  type: list
  elements: str
  sample:
    - Shared node
ran:
  description: Whether the work was done inside the Ansible process (V(in_process)) or by the module (V(module)).
  returned: always
  type: str
  sample: in_process
error:
  description: The failed action, its object and the cause.
  returned: failure
  type: dict
  sample:
    action: read
    object: "sections[0].gangs[1].timeline[0]: at"
    cause: "a time such as 2026-01-31T12:00:00Z is needed, not 'yesterday'"
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.report import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
