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
    queues, gangs within what is their own go before borrowers, then the queue that borrows least by its weight, or that
    used least over time (O(settings.fair)).
    A gang that waits for quota is told what is short, by how much, and at which queue.
  - Two things hold whatever happens. While a tree cannot be read, nothing starts. What was started stays charged to its
    queue until nothing of it is left, also when the tree or its label changes.
  - A gang that lacks what is its queue's own gets it back. Borrowers are evicted for it, and within its own queue gangs
    of lower priority, but only where it then fits quota and nodes. What they free is held for it. Evicted gangs wait in
    their old place and pause for a while.
  - Either dispatchers count what is used of the tree, or Kueue does (O(backends)). What Kueue needs for that is written
    and kept as the tree says. Only objects with the label C(muster.kube/quota-tree) of the tree are changed or removed.
    One of somebody else's whose name is needed is named and the task is refused.
  - Dispatchers write down what gangs use, which M(muster.kube.quota_info) tells, and keep to O(queues[].budget) and
    O(queues[].user_limits).
  - In a tree with O(flavors) each podset of a gang is charged to one of them, and its pods are confined to its nodes.
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
        refused. So is one that takes away what admitted Workloads of Kueue count in, or that lets Kueue count what
        started gangs use, or the other way round.
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
      - These or O(from_quota_subtrees) are required with O(state=present).
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
      from_nodes:
        description:
          - Amounts as a share of what nodes have. They become O(queues[].nominal) of a leaf and O(queues[].capacity) of
            a queue above others.
          - They are worked out when the task runs, and stored as numbers. Run it again when nodes have come or gone. A
            note in O(queues[].note) says what they were worked out from.
          - Every node counts that is selected, whether it is cordoned or not. In a tree with O(flavors) a node counts
            for the first flavor whose labels it has.
          - Each amount is rounded down, to whole units or thousandths of a core. Shares that make 1 together never come
            to more than there is.
        type: dict
        suboptions:
          share:
            description: A part of 1, as V(0.25) or V(1/3).
            type: str
            required: true
          resources:
            description: Of which resources. A node must have each of them, and no amount of it may be given besides.
            type: list
            elements: str
            required: true
          node_selector:
            description: Labels that the nodes have. Without it, all nodes.
            type: dict
          less_daemons:
            description: Whether what pods of DaemonSets and static pods request on these nodes is left out.
            type: bool
            default: true
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
          - What one user may have in the queue, or in all queues below it together. A gang beyond it waits, reason
            C(user_limit), and holds up nobody.
          - The user of a gang is the annotation C(muster.kube/user) of its record, which M(muster.kube.gang) writes.
            Whoever may write records can claim to be somebody else. Gangs without it count as those of one user in
            each namespace.
        type: dict
        suboptions:
          running:
            description: Started gangs.
            type: int
          pending:
            description: Waiting gangs that are asked. Those behind them wait until one of these has started or gone.
            type: int
          resources:
            description: Amounts of resources that started gangs use.
            type: dict
      budget:
        description:
          - What the queue and all below it may use in a period. When that is reached, nothing more starts until the
            period ends, reason C(budget_spent). What runs goes on, so that more may be used in the end.
          - Counted is what dispatchers have written down, every few minutes and soon after a gang ends.
        type: dict
        suboptions:
          hours:
            description: Hours by resource, such as 1000 of C(nvidia.com/gpu), or 500Gi of C(memory).
            type: dict
            required: true
          period:
            description: Length of the period, by the calendar in UTC.
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
      note:
        description:
          - A remark for people who read the tree. It changes nothing.
        type: str
  flavors:
    description:
      - Kinds of nodes that are counted apart, in the order in which they are tried. Without any, all nodes count alike.
      - A podset gets the first that its queue has enough of within its own and that has nodes for it, else the one that
        is borrowed nearest. Where its nodes are full, the next one is tried that has quota.
      - A gang whose pods cannot be confined, since no template of theirs is known, waits (V(flavor_unreachable)),
        unless there is a flavor without O(flavors[].node_labels) and O(flavors[].tolerations).
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the flavor.
        type: str
        required: true
      node_labels:
        description:
          - Labels of its nodes. They are added to the C(nodeSelector) of pods that are charged to it.
        type: dict
      tolerations:
        description:
          - Tolerations that pods on its nodes need, as Kubernetes writes them. They are added to those of the pods.
        type: list
        elements: dict
  settings:
    description:
      - What holds for the whole tree.
    type: dict
    suboptions:
      fair:
        description:
          - Whether queues are compared by what they have V(borrowed) now, or by their V(usage) over time, each divided
            by their weight.
          - Usage is counted from when this was set. Where a dispatcher cannot read it, queues are compared by what they
            have borrowed, which it warns of.
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
        description: A gang that runs for less than this is not evicted. Of several trees the longest time counts.
        type: str
        default: 10m
      nominate_timeout:
        description: How long room that was freed for a gang is held for it. Of several trees the longest time counts.
        type: str
        default: 5m
      max_evictions:
        description:
          - How many gangs are evicted in one cycle at most. With V(0) nobody is. Of several trees the lowest number
            counts.
          - An owner that needs more of them gets all in one cycle in which nobody else goes, since it would never get
            its own otherwise.
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
  backends:
    description:
      - Who is told of the tree. Exactly one of V(embedded) and V(kueue) counts what is used of it. Both together would
        each hand out the whole tree.
      - With V(embedded) our dispatchers do.
      - With V(kueue) Kueue does. The tree becomes a ClusterQueue for each leaf, a Cohort for each queue above others,
        a ResourceFlavor for each flavor, a WorkloadPriorityClass for each of O(priorities), and a LocalQueue in each
        namespace that a leaf is open to. All are called like the queue or flavor, in trees other than V(default)
        with the tree's name and a dot before it. Namespaces that are made later get their LocalQueue when the task
        runs again. Our dispatchers then start no gang, which they tell as C(queue_held).
      - Kueue has no place for O(queues[].capacity), O(queues[].user_limits), O(queues[].budget) and
        O(queues[].priority_cap). Such a tree is refused. What else Kueue does in its own way is a warning.
      - V(resourcequota) adds ceilings that the API server itself keeps. Each leaf has exactly one namespace, where a
        ResourceQuota limits what all pods request to nominal and borrowing limit together. Every pod there then needs
        to say what it requests.
    type: list
    elements: str
    default:
      - embedded
    choices:
      - embedded
      - kueue
      - resourcequota
  label:
    description:
      - The label of records by which gangs name their queue in this tree. Without it the label is called like the tree.
    type: str
  priorities:
    description:
      - Names for priorities, each with its number. Kueue gets them as WorkloadPriorityClasses. Dispatchers know
        priorities by their numbers.
    type: dict
  from_quota_subtrees:
    description:
      - Take the queues from the QuotaSubtrees of MCAD in the cluster, instead of O(queues). The quota of a leaf becomes
        O(queues[].nominal), that of a queue above others O(queues[].capacity). RV(notes) tell what is otherwise than
        with MCAD.
      - MCAD's trees often promise more than they have, which needs O(over_capacity=warn).
      - Gangs name their queue by the label that MCAD knows, the name of its tree.
    type: dict
    suboptions:
      tree:
        description: MCAD's name of the tree, the value of the label C(tree) of its QuotaSubtrees. By default O(tree).
        type: str
      namespace:
        description: Read QuotaSubtrees of this namespace only.
        type: str
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

- name: Two teams have half of the GPUs each, whatever daemons leave of cores and memory
  muster.kube.quota:
    tree: halves
    queues:
      - name: cluster
      - name: research
        parent: cluster
        namespaces:
          - research
        from_nodes:
          share: 1/2
          resources:
            - cpu
            - memory
            - nvidia.com/gpu
      - name: production
        parent: cluster
        default: true
        from_nodes:
          share: 1/2
          resources:
            - cpu
            - memory
            - nvidia.com/gpu

- name: Let Kueue count, and have the API server keep each namespace below its ceiling
  muster.kube.quota:
    tree: counted-by-kueue
    backends:
      - kueue
      - resourcequota
    priorities:
      urgent: 1000
    queues:
      - name: teams
      - name: vision
        parent: teams
        namespaces:
          - vision
        nominal: &half
          cpu: 32
          memory: 256Gi
          nvidia.com/gpu: 8
        borrowing_limit: *half
      - name: speech
        parent: teams
        namespaces:
          - speech
        nominal: *half
        hard: true

- name: Take over a tree of MCAD's
  muster.kube.quota:
    tree: quota-context
    over_capacity: warn
    from_quota_subtrees:
      tree: quota_context

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
objects:
  description: >-
    The objects that O(backends) have of the tree, and what was done with each, or in check mode would be. Empty when
    dispatchers count and there are no ceilings.
  returned: success
  type: list
  elements: dict
  contains:
    apiVersion:
      description: Version of the API that the object is written for.
      type: str
      sample: kueue.x-k8s.io/v1beta2
    kind:
      description: Its kind.
      type: str
      sample: ClusterQueue
    namespace:
      description: Its namespace, null when its kind has none.
      type: str
    name:
      description: Its name.
      type: str
      sample: research
    action:
      description: V(created), V(changed), V(unchanged) or V(pruned).
      type: str
      sample: created
    untried:
      description: Always false here. The server was asked about each object.
      type: bool
      sample: false
would:
  description: >-
    What dispatchers would do if the tree were like this, as things are now, until nothing more starts or goes.
    V(null) where this account may not see enough to tell, which RV(notes) says.
  returned: in check mode
  type: dict
  contains:
    start:
      description: The gangs that would start.
      type: list
      elements: str
      sample:
        - blue/train
    wait:
      description: The gangs that would wait, with C(gang), C(reason) in one word and C(text) of the verdict.
      type: list
      elements: dict
      sample: []
    reclaim:
      description: The gangs that would be evicted.
      type: list
      elements: str
      sample:
        - red/train
    shrink:
      description: Elastic gangs that would shrink instead, with C(gang) and the sizes C(from) and C(to).
      type: list
      elements: dict
      sample: []
notes:
  description: What could not be read, and what is otherwise than with MCAD where its trees were taken over.
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
