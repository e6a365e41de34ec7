#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quota
short_description: Declare a tree of queues with quotas across namespaces
version_added: 0.1.0
description:
  - Keeps a tree of queues as declared. Each leaf has a nominal amount that is its own, borrows from others what they do
    not use, and lends what it does not use itself. Queues above others hold them together, add a pool of their own, or
    limit what they have in all.
  - The tree is one ConfigMap, C(muster-quota-) and its name, beside the dispatcher's Lease. It counts gangs of all
    namespaces.
  - A tree that is wrong is refused before anything is written. All that is wrong with it is told at once, each queue by
    its path from the root.
  - Every dispatcher keeps to the tree. A gang starts only when its queue and all above it have room for it. Between
    queues, gangs within what is their own go before borrowers, then the queue that borrows least by its weight.
    A gang that waits for quota is told what is short, by how much, and at which queue.
  - Two things hold whatever happens. While a tree cannot be read, nothing starts. What was started stays charged to its
    queue until nothing of it is left, also when the tree or its label changes. A cut takes nothing back.
  - Stored and checked, but not kept to by dispatchers of this version, are O(queues[].reclaim),
    O(queues[].user_limits), O(queues[].budget) and O(settings). O(queues[].stop=drain) only holds. In a tree with
    O(flavors) nothing starts.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - muster.kube._attributes
  - muster.kube._attributes.action_group
  - muster.kube._in_process
  - muster.kube._lease
author:
  - The muster.kube authors (@muster-kube)
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - The difference shows the parts of the tree that change, each queue under its path.
  idempotent:
    support: full
options:
  state:
    description:
      - With V(present) the tree is as declared.
      - With V(absent) there is no such tree.
      - A leaf that started gangs are charged to is never taken away, with the tree or by leaving it out. Such a task is
        refused.
    type: str
    default: present
    choices:
      - present
      - absent
  tree:
    description:
      - Name of the tree. Gangs that name a queue and no tree mean V(default).
      - It is part of a ConfigMap's name and the name of a label, so it has lower case letters, digits and C(-) only.
    type: str
    default: default
  queues:
    description:
      - The queues, in any order. Exactly one has no parent.
      - Required with O(state=present).
      - Amounts are quantities as Kubernetes writes them, by resource, or by flavor and resource. A tree with several
        flavors needs the flavors.
      - Resources that no queue has an amount of are not counted by the tree.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name of the queue, unique in the tree. It is the value of a label.
        type: str
        required: true
      parent:
        description:
          - Name of the queue above.
        type: str
      nominal:
        description:
          - What a leaf may always have. A resource that is left out is V(0), and may be borrowed.
        type: dict
      extra:
        description:
          - A pool of its own that a queue above others adds to what those bring.
        type: dict
      capacity:
        description:
          - The most that the queues below may have together of their own. Below a root, or a hard queue, this is also
            the most they may use.
        type: dict
      borrowing_limit:
        description:
          - The most that the queue may use beyond its own. Without it, whatever others do not use.
        type: dict
      lending_limit:
        description:
          - The most that others may use of its own. Without it, all that it does not use.
        type: dict
      hard:
        description:
          - Whether the queue never borrows, as if O(queues[].borrowing_limit) were 0 for every resource.
        type: bool
        default: false
      weight:
        description:
          - Its weight among its siblings when they borrow. With V(0) it borrows after all others.
        type: str
        default: "1"
      priority_cap:
        description:
          - The highest priority that gangs of the queue get.
        type: int
      namespaces:
        description:
          - Namespaces whose gangs belong to this leaf when they name no queue. A namespace belongs to one leaf.
          - A leaf with neither namespaces nor O(queues[].selector) may be named by gangs of every namespace, any other
            by those of its own only.
        type: list
        elements: str
      selector:
        description:
          - Namespaces by their labels, with C(matchLabels) and C(matchExpressions) as Kubernetes writes them. Leaves
            that name a namespace come first.
        type: dict
      default:
        description:
          - Whether gangs that no other rule gives a leaf belong to this one.
        type: bool
        default: false
      reclaim:
        description:
          - From whom the queue may take back its own, from borrowers of V(any) priority, of V(lower_priority) than the
            gang that needs it, or from none with V(never).
        type: str
        default: any
        choices:
          - any
          - lower_priority
          - never
      user_limits:
        description:
          - What one user may have in the queue.
        type: dict
        suboptions:
          running:
            description: Started gangs.
            type: int
          pending:
            description: Waiting gangs.
            type: int
          resources:
            description: Amounts of resources that started gangs use.
            type: dict
      budget:
        description:
          - What may be used in a period.
        type: dict
        suboptions:
          hours:
            description: Hours of one unit, by resource.
            type: dict
            required: true
          period:
            description: Length of the period, by the calendar.
            type: str
            default: month
            choices:
              - month
              - quarter
              - year
      stop:
        description:
          - Whether the queue, and all below it, starts nothing (V(hold)), or is to be empty too (V(drain)).
        type: str
        default: none
        choices:
          - none
          - hold
          - drain
  flavors:
    description:
      - Kinds of nodes that are counted apart, in the order in which they are tried. Without any, all nodes count alike.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the flavor.
        type: str
        required: true
      node_labels:
        description: Labels of its nodes.
        type: dict
      tolerations:
        description: Tolerations that pods on its nodes need, as Kubernetes writes them.
        type: list
        elements: dict
  settings:
    description:
      - What holds for the whole tree.
    type: dict
    suboptions:
      fair:
        description:
          - Whether borrowers are compared by what they have V(borrowed) now, or by their V(usage) over time.
        type: str
        default: borrowed
        choices:
          - borrowed
          - usage
      half_life:
        description: With O(settings.fair=usage), the time after which what was used counts half.
        type: str
        default: 7d
      min_run_time:
        description: A gang that runs for less than this is not evicted.
        type: str
        default: 10m
      nominate_timeout:
        description: How long room that was freed for a gang is held for it.
        type: str
        default: 5m
      max_evictions:
        description: How many gangs are evicted in one cycle at most.
        type: int
        default: 10
      prices:
        description:
          - What an hour of one unit costs, by resource, or by flavor and resource. Of resources that are counted in
            bytes one unit is a GiB.
        type: dict
  over_capacity:
    description:
      - What to do when leaves have more nominal amounts together than the capacity of a queue above them, so that
        nobody can promise them their own.
    type: str
    default: refuse
    choices:
      - refuse
      - warn
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
seealso:
  - module: muster.kube.quota_info
  - module: muster.kube.gang
  - module: muster.kube.dispatch
"""

EXAMPLES = r"""
- name: Two teams share 16 GPUs, research may borrow 4 at most
  muster.kube.quota:
    queues:
      - name: cluster
        capacity:
          nvidia.com/gpu: 16
      - name: research
        parent: cluster
        namespaces:
          - research
        nominal:
          nvidia.com/gpu: 4
        borrowing_limit:
          nvidia.com/gpu: 4
      - name: production
        parent: cluster
        default: true
        weight: 2
        nominal:
          nvidia.com/gpu: 12

- name: What would change if research got two more?
  muster.kube.quota:
    queues: "{{ planned_queues }}"
  check_mode: true
  diff: true
  register: planned

- name: Remove the tree
  muster.kube.quota:
    state: absent
"""

RETURN = r"""
tree:
  description: Name of the tree.
  returned: success
  type: str
  sample: default
namespace:
  description: Namespace of its ConfigMap.
  returned: success
  type: str
  sample: muster-system
before:
  description: The queues as they were before, as RV(queues). Empty when there was no tree.
  returned: success
  type: list
  elements: dict
  sample: []
queues:
  description: >-
    The queues as they are now, or in check mode would be, with what is used of them now, as
    RV(muster.kube.quota_info#module:trees[].queues). Empty when there is no tree.
  returned: success
  type: list
  elements: dict
  sample:
    - name: research
      path: cluster/research
      parent: cluster
      leaf: true
      stop: none
      started: 1
      waiting: 2
      weighted_share: 0
      resources:
        - flavor: null
          resource: nvidia.com/gpu
          entitled: "4"
          used: "2"
          borrowed: "0"
          lent: "0"
          headroom: "6"
          idle: "2"
notes:
  description: What could not be read.
  returned: success
  type: list
  elements: str
  sample: []
problems:
  description: Everything that is wrong with a tree that is refused.
  returned: when a tree is refused
  type: list
  elements: dict
  contains:
    where:
      description: Path of the queue, or the part of the tree.
      type: str
      sample: cluster/research
    field:
      description: The field that is wrong. Empty for the whole.
      type: str
      sample: lending_limit.nvidia.com/gpu
    cause:
      description: What is wrong with it.
      type: str
      sample: 5 is more than nominal, 4
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
    object: quota tree default
    cause: "cluster/research: parent: there is no queue 'cluster'"
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.quota import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
