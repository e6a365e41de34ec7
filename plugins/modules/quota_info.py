#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: quota_info
short_description: Tell who holds what of a quota tree, and what it says to a gang
version_added: 0.1.0
description:
  - Tells for each queue of the trees that M(muster.kube.quota) stored what it is entitled to, what started gangs of it
    use, what it has borrowed and lent, and what lies idle.
  - A gang uses what its record keeps reserved, from its start until nothing of it is left, and no less than its pods
    ask for. Pods whose record is gone count for the queue in their label. This is how dispatchers count. Pods outside
    of gangs are told and not counted.
  - A question about a O(gang), a O(definition), a O(namespace), a O(user) or a O(queue) is answered besides. Objects
    that are not queued yet are judged as if they were.
  - Who may not list the records of all namespaces is answered with the amounts that the dispatcher publishes beside the
    tree, and told of which moment they are (RV(trees[].as_of)).
  - Dispatchers write down what gangs used, by queue, month, user and namespace, every few minutes and soon after a gang
    ends. Hours, costs by O(muster.kube.quota#module:settings.prices) and budgets are told from that. Of resources in
    bytes one unit is a GiB.
  - The user of a gang is the annotation C(muster.kube/user) of its record. M(muster.kube.gang) writes it when it queues
    a gang, as the API server knows its caller. Whoever may write records can write another one, so it is claimed only.
    Gangs without it have an empty user.
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
  gang:
    description:
      - A gang that is queued. RV(gang) tells what quota says to it, or where it is charged.
    type: dict
    suboptions:
      name:
        description: Name of the gang.
        type: str
        required: true
      namespace:
        description: Namespace of the gang.
        type: str
        default: default
  definition:
    description:
      - The objects of a gang that is not queued yet, as a mapping, a list of mappings, or YAML text with one or more
        documents.
    type: raw
    aliases:
      - inline
      - objects
  src:
    description:
      - A file with the objects of a gang that is not queued yet, as YAML with one or more documents.
      - It is looked for as M(kubernetes.core.k8s) does it, in the role, beside the playbook and in C(files) there.
    type: path
  podsets:
    description:
      - The demand of a gang that is not queued yet, declared instead of inferred.
      - When given together with objects, the declaration counts.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the podset, shown in advice.
        type: str
      count:
        description: How many pods.
        type: int
        default: 1
      requests:
        description: What each pod asks for, as Kubernetes quantities by resource name.
        type: dict
      limits:
        description: The pods' limits; they count against ResourceQuotas and stand in for missing requests.
        type: dict
      spec:
        description: A pod specification, whose containers are asked where O(podsets[].requests) says nothing.
        type: dict
      labels:
        description: Labels of the pods.
        type: dict
  namespace:
    description:
      - With O(definition), O(src) or O(podsets) the namespace of that gang. It defaults to the one written in the
        objects, else V(default).
      - Otherwise a namespace that is asked about. RV(namespace) tells its queue, its gangs and its own rules.
    type: str
  user:
    description:
      - A user, as the annotation C(muster.kube/user) of records names him. RV(user) tells what he holds in each queue.
    type: str
  queue:
    description:
      - With O(definition), O(src) or O(podsets) the queue that the gang would name.
      - Otherwise a queue that is asked about. RV(gangs) lists its gangs, and RV(trees[].queues) only those above and
        below it.
    type: str
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
seealso:
  - module: muster.kube.quota
  - module: muster.kube.gang_info
  - module: muster.kube.fit_info
  - module: muster.kube.report
"""

EXAMPLES = r"""
- name: Who has what?
  muster.kube.quota_info:
  register: quota

- name: Show it
  ansible.builtin.debug:
    msg: "{{ quota.trees | map(attribute='text') | list }}"

- name: Who used how many GPU hours this year?
  ansible.builtin.debug:
    msg: "{{ item.user }} in {{ item.month }}: {{ item.hours['nvidia.com/gpu'] | default(0) }}"
  loop: "{{ quota.trees | map(attribute='usage.rows') | flatten }}"
- name: Keep it as a table
  ansible.builtin.copy:
    content: "{{ quota.csv }}"
    dest: /tmp/quota.csv
    mode: "0644"

- name: Why does it wait?
  muster.kube.quota_info:
    gang:
      name: train
      namespace: blue
  register: train
  ignore_errors: true

- name: Would eight GPUs be within our quota, and if not, what would be?
  muster.kube.quota_info:
    namespace: blue
    podsets:
      - name: workers
        count: 8
        requests:
          nvidia.com/gpu: 1
  register: asked

- name: Show what is short, where, and what would help
  ansible.builtin.debug:
    msg: "{{ asked.gang.verdict_text }}"

- name: Queues that use more than their own
  ansible.builtin.debug:
    msg: "{{ item.path }}"
  loop: "{{ quota.trees | map(attribute='queues') | flatten }}"
  when: item.weighted_share
"""

RETURN = r"""
gang:
  description: What is asked about a gang, queued or not. None without such a question.
  returned: success
  type: dict
  contains:
    name:
      description: Name of the gang.
      type: str
      sample: train
    namespace:
      description: Its namespace.
      type: str
      sample: blue
    phase:
      description: Its phase. None for one that is not queued yet.
      type: str
      sample: queued
    user:
      description: Who queued it, as its record says.
      type: str
      sample: null
    charged:
      description: Of a started gang the queue of each tree that is charged, and with what.
      type: list
      elements: dict
      sample:
        - tree: default
          queue: teams/blue
          resources:
            - flavor: null
              resource: nvidia.com/gpu
              amount: "4"
    verdict:
      description:
        - The verdict as M(muster.kube.fit_info) has it, with the layers quota and namespace. Nodes are not looked at,
          so that what fits is V(unproven), or V(borrowing). None for gangs that do not wait.
        - A gang that waits for others to go says V(nominated), and C(how) is V(after_reclaim); one that would fit may
          say V(quota_reserved). Both are what a dispatcher wrote into its record.
        - The other reasons of trees are V(quota), V(queue_unknown), V(queue_forbidden), V(queue_held), V(user_limit),
          V(budget_spent), V(flavor_unreachable), V(quota_unreadable) and V(quota_not_visible).
      type: dict
      sample:
        answer: waits
        reason: quota
    verdict_text:
      description: The verdict in words.
      type: str
      sample: "train: waits: the quota tree has too little left"
    as_of:
      description: Of which moment the amounts are, where a dispatcher published them. Otherwise none.
      type: str
      sample: null
namespace:
  description: What is asked about a namespace, or that of the gang. None without such a question.
  returned: success
  type: dict
  contains:
    name:
      description: Name of the namespace.
      type: str
      sample: blue
    queues:
      description: Its queue in each tree, with the reason why nothing of it starts there, if there is one.
      type: list
      elements: dict
      sample:
        - tree: default
          queue: teams/blue
          reason: null
          detail: null
    started:
      description: Number of its started gangs. None where records may not be seen.
      type: int
      sample: 1
    waiting:
      description: Number of its waiting gangs, as RV(namespace.started).
      type: int
      sample: 0
    resource_quotas:
      description: >-
        All of its ResourceQuotas with their scopes. Each amount says whether it counts requests, limits, objects or
        storage.
      type: list
      elements: dict
      sample:
        - name: team
          scopes: []
          scope_selector: []
          resources:
            - resource: count/jobs.batch
              counts: objects
              hard: "10"
              used: "4"
              left: "6"
    limit_ranges:
      description: All of its LimitRanges.
      type: list
      elements: dict
      sample:
        - name: defaults
          limits:
            - type: Container
              max:
                cpu: "8"
user:
  description: What is asked about a user. None without such a question.
  returned: success
  type: dict
  contains:
    name:
      description: Name of the user.
      type: str
      sample: ann@example.com
    started:
      description: Number of his started gangs. None where records may not be seen.
      type: int
      sample: 1
    waiting:
      description: Number of his waiting gangs, as RV(user.started).
      type: int
      sample: 0
    queues:
      description: What he holds in each queue, and the limits of one user there.
      type: list
      elements: dict
      sample:
        - tree: default
          queue: teams/blue
          started: 1
          waiting: 0
          resources:
            - flavor: null
              resource: nvidia.com/gpu
              amount: "4"
          limits:
            running: null
            pending: null
            resources: {}
gangs:
  description: >-
    The gangs of the queue that is asked about, and of those below it, each with what it is charged. None without such a
    question.
  returned: success
  type: list
  elements: dict
  sample:
    - name: train
      namespace: blue
      user: null
      phase: running
      tree: default
      queue: teams/blue
      resources:
        - flavor: null
          resource: nvidia.com/gpu
          amount: "4"
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
        this account may not see what is used, and no dispatcher published it. Otherwise none.
      type: str
      sample: null
    detail:
      description: What is wrong with a tree that cannot be read.
      type: str
      sample: null
    as_of:
      description: Of which moment the amounts are, on the server's clock.
      type: str
      sample: "2026-11-18T12:00:00Z"
    published:
      description: >-
        Whether they are those that a dispatcher published, because this account may not list the records of all
        namespaces. They are published when they change, at most every ten seconds.
      type: bool
      sample: false
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
        months:
          description: >-
            What it and those below it used in each month (UTC) with any use. None where that may not be read.
          type: list
          elements: dict
          contains:
            month:
              description: The month.
              type: str
              sample: 2026-11
            hours:
              description: Hours of one unit, by resource, or by flavor and resource.
              type: dict
              sample:
                nvidia.com/gpu: "12.5"
            cost:
              description: What they cost. None where the tree has no prices.
              type: str
              sample: "25"
        budget:
          description: Where its budget stands, by resource. Empty without one, none where that may not be read.
          type: list
          elements: dict
          contains:
            resource:
              description: The resource.
              type: str
              sample: nvidia.com/gpu
            used:
              description: Hours used in the present period, by it and those below it.
              type: str
              sample: "12.5"
            limit:
              description: Hours that may be used in a period.
              type: str
              sample: "1000"
            spent:
              description: Whether nothing starts until the period ends.
              type: bool
              sample: false
            reset:
              description: When the period ends.
              type: str
              sample: "2026-12-01T00:00:00Z"
    usage:
      description: What was used, row by row. None where that may not be read.
      type: dict
      contains:
        as_of:
          description: Until when it is counted. None when nothing was counted yet.
          type: str
          sample: "2026-11-16T04:05:00Z"
        users:
          description: >-
            How far names of users can be trusted. V(claimed) means that writers of records can write any. V(enforced)
            means that policies of the role quota_tree refuse others by now in every namespace that used the tree.
          type: str
          sample: claimed
        rows:
          description: >-
            One for each queue, month, user and namespace. A row without user and namespace holds users of an old month
            together.
          type: list
          elements: dict
          contains:
            queue:
              description: Name of the leaf.
              type: str
              sample: research
            path:
              description: Its path. None when the tree has it no more.
              type: str
              sample: cluster/research
            month:
              description: The month (UTC).
              type: str
              sample: 2026-11
            user:
              description: Who queued the gangs. Empty where nobody is known.
              type: str
              sample: ann@example.com
            namespace:
              description: Namespace of the gangs.
              type: str
              sample: research
            hours:
              description: Hours of one unit, by resource, or by flavor and resource.
              type: dict
              sample:
                nvidia.com/gpu: "12.5"
            cost:
              description: What they cost. None where the tree has no prices.
              type: str
              sample: "25"
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
    pairs:
      description: >-
        Queues that borrow beside queues whose waiting gangs lack exactly that, with what the gang lacks that needs
        least, and how many lack it. None where records may not be seen.
      type: list
      elements: dict
      sample:
        - flavor: null
          resource: nvidia.com/gpu
          borrower: teams/red
          borrowed: "2"
          starved: teams/blue
          short: "2"
          waiting: 1
    unqueued:
      description: >-
        What pods outside of gangs ask for of what the tree counts, by namespace, with the queue of that namespace. It
        is not counted. None where pods may not be listed.
      type: list
      elements: dict
      sample:
        - namespace: red
          queue: teams/red
          pods: 1
          resources:
            nvidia.com/gpu: "1"
    drift:
      description: >-
        Started gangs that are not what their records say. V(queue_gone) is one that is charged to a queue that the tree
        has no more; V(amount) one whose pods ask for something else than it is charged with. None where pods may not
        be listed.
      type: list
      elements: dict
      sample:
        - gang: red/train
          queue: red
          what: amount
          resource: nvidia.com/gpu
          charged: "6"
          used: "5"
    warnings:
      description: Queues whose leaves have more nominal amounts together than its capacity.
      type: list
      elements: str
      sample: []
    text:
      description: The tree in words, a line for each queue.
      type: str
      sample: "cluster: 2 of 16 nvidia.com/gpu used"
text:
  description: The whole answer in words.
  returned: success
  type: str
  sample: "cluster: 2 of 16 nvidia.com/gpu used"
csv:
  description: >-
    The queues of all trees in question as a table, a row for each queue and resource, quoted as RFC 4180
    says. A text that a spreadsheet would take for a formula begins with an apostrophe.
  returned: success
  type: str
  sample: "tree,path,name,parent,leaf,stop,started,waiting"
notes:
  description: What could not be read, and what was asked for and does not exist.
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
