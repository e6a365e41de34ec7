#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quota_info
short_description: Tell what each queue of a quota tree is entitled to, uses, borrows and lends
version_added: 0.1.0
description:
  - Tells for each queue of the trees that M(muster.kube.quota) stored what it is entitled to, what started gangs of it
    use, what it has borrowed and lent, and what lies idle.
  - A gang uses what its record keeps reserved, from its start until nothing of it is left. Pods outside of gangs are
    not counted.
  - Nothing is ever written to the cluster.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - muster.kube._attributes.info
  - muster.kube._attributes.action_group
  - muster.kube._lease
author:
  - The muster.kube authors (@muster-kube)
options:
  tree:
    description:
      - Only the tree of this name. Without it, all trees beside the Lease.
    type: str
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
seealso:
  - module: muster.kube.quota
  - module: muster.kube.gang_info
"""

EXAMPLES = r"""
- name: Who has what?
  muster.kube.quota_info:
  register: quota

- name: Show it
  ansible.builtin.debug:
    msg: "{{ quota.trees | map(attribute='text') | list }}"

- name: Queues that use more than their own
  ansible.builtin.debug:
    msg: "{{ item.path }}"
  loop: "{{ quota.trees | map(attribute='queues') | flatten }}"
  when: item.weighted_share
"""

RETURN = r"""
trees:
  description: The trees in question, by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the tree.
      type: str
      sample: default
    problem:
      description: >-
        V(quota_unreadable) when the stored tree cannot be read, so that nothing of it starts, V(quota_not_visible) when
        this account may not see what is used. Otherwise none.
      type: str
      sample: null
    detail:
      description: What is wrong with a tree that cannot be read.
      type: str
      sample: null
    digest:
      description: Fingerprint of the tree.
      type: str
      sample: 3f0a6b1f5e0f7c6b5a4f3e2d1c0b9a8f7e6d5c4b3a29181706f5e4d3c2b1a090
    definition:
      description: The tree as it can be given to M(muster.kube.quota) again.
      type: dict
      sample:
        queues:
          - name: cluster
            nominal:
              nvidia.com/gpu: "16"
    queues:
      description: The queues, each after the one above it.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the queue.
          type: str
          sample: research
        path:
          description: The names from the root down to it.
          type: str
          sample: cluster/research
        parent:
          description: Name of the queue above. None for the root.
          type: str
          sample: cluster
        leaf:
          description: Whether gangs are charged to it.
          type: bool
          sample: true
        stop:
          description: Whether it starts nothing.
          type: str
          sample: none
        started:
          description: Number of started gangs of a leaf. None above leaves, and where records may not be seen.
          type: int
          sample: 1
        waiting:
          description: Number of waiting gangs of a leaf, as RV(trees[].queues[].started).
          type: int
          sample: 2
        weighted_share:
          description: >-
            What it has borrowed of the resource that is scarcest among those that can be lent, in thousandths, divided
            by its weight. The queue with the least is asked first.
          type: int
          sample: 0
        resources:
          description: Its amounts by flavor and resource. Those of use are none where records may not be seen.
          type: list
          elements: dict
          contains:
            flavor:
              description: The flavor. None in a tree without flavors.
              type: str
              sample: null
            resource:
              description: The resource.
              type: str
              sample: nvidia.com/gpu
            entitled:
              description: What it and those below it may always have.
              type: str
              sample: "4"
            used:
              description: What it and those below it use.
              type: str
              sample: "2"
            borrowed:
              description: What it uses beyond its own.
              type: str
              sample: "0"
            lent:
              description: What it could not have back now of its own, because others use it.
              type: str
              sample: "0"
            headroom:
              description: What it can still start, borrowing as far as it may.
              type: str
              sample: "6"
            idle:
              description: What it neither uses nor has lent of its own.
              type: str
              sample: "2"
    fairness:
      description: >-
        Jain's index of each resource over the leaves, of what they use of their own. It is 1 when all use the same
        part, and none when nothing is used.
      type: dict
      sample:
        nvidia.com/gpu: 0.9
    unplaced:
      description: Number of started gangs that no queue of the tree is for. None where records may not be seen.
      type: int
      sample: 0
    warnings:
      description: Queues whose leaves have more nominal amounts together than its capacity.
      type: list
      elements: str
      sample: []
    text:
      description: The tree in words, a line for each queue.
      type: str
      sample: "cluster: 2 of 16 nvidia.com/gpu used"
notes:
  description: What could not be read.
  returned: success
  type: list
  elements: str
  sample: []
error:
  description: The failed action, its object and the cause.
  returned: failure
  type: dict
  sample:
    action: list
    object: configmaps
    cause: no right to do that (HTTP 403 Forbidden)
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.quota_info import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
