#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dispatch
short_description: Start queued gangs in order, each whole or not at all
version_added: 0.1.0
description:
  - Looks at the gangs that M(muster.kube.gang) has queued, in order, starts those that fit the cluster now, and leaves
    the others in the queue with the reason.
  - Looks after the started ones too. Gangs whose pods find no node, fall below their minimum or run too long are undone
    whole; finished ones are marked as such.
  - Without O(duration) it runs one cycle and ends, as a cron job or an AWX schedule wants it. With it, it follows the
    cluster for so long and reacts within a second.
  - Everything is kept in the cluster. When a dispatcher dies at any point, the next one goes on from there. Any number
    of them may run at once; a Lease decides which one acts.
  - A task rather than a state. It needs nothing installed in the cluster.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - muster.kube._attributes
  - muster.kube._attributes.action_group
  - muster.kube._lease
author:
  - The muster.kube authors (@muster-kube)
attributes:
  check_mode:
    support: full
    details:
      - Returns the decisions that one cycle would make now, without the Lease. Dry runs on the server are all
        that is sent to be written. What follows from the decisions in later cycles is not foreseen.
  diff_mode:
    support: none
    details:
      - RV(decisions) tells what was done.
  idempotent:
    support: partial
    details:
      - When nothing can be started and no gang has changed, nothing but the Lease is written and the task reports no
        change.
options:
  duration:
    description:
      - How long to go on, in seconds or like V(1h30m). When not given, one cycle is run.
    type: str
  policy:
    description:
      - What happens when a gang does not fit. With V(strict) nobody behind it is asked, unless it can never fit as
        it is. With V(best_effort) all are asked. With V(reserve) all are asked, but the first gang that has waited
        for longer than O(reserve_after) gets the nodes reserved that will be free first, and in each queue of a quota
        tree the quota.
    type: str
    default: reserve
    choices:
      - strict
      - best_effort
      - reserve
  reserve_after:
    description:
      - How long a gang has waited before nodes are reserved for it, in seconds or like V(1h30m).
    type: str
    default: 1h
  hold:
    description:
      - What a reservation is when nobody knows when its nodes will be free. V(soft) makes none and says so. V(hard)
        keeps them free nevertheless, which costs utilization.
    type: str
    default: soft
    choices:
      - soft
      - hard
  namespaces:
    description:
      - Only gangs of these namespaces are considered. Objects are then created with the rights of the account that runs
        the task, so everybody who may write records there can use them.
      - When not given, gangs of all namespaces are considered, and objects are created by impersonating the
        ServiceAccount C(muster) of the gang's namespace. A gang in a namespace without that account waits.
    type: list
    elements: str
  max_starts:
    description:
      - Start at most so many gangs in one cycle.
    type: int
  bind_timeout:
    description:
      - A gang of which a pod has been unschedulable for so long is undone and queued again.
    type: str
    default: "60"
  start_timeout:
    description:
      - A gang that has not all its pods after so long is undone and queued again.
    type: str
    default: "300"
  decision_log:
    description:
      - A file to which every decision is appended as one line of JSON.
    type: path
  lease_timeout:
    description:
      - How long to wait for the Lease when another dispatcher holds it, in seconds or like V(1h30m). With O(duration)
        the whole duration is waited.
      - When it is not free by then nothing is done, and RV(holder) names who has it.
    type: str
    default: "0"
    aliases:
      - wait_timeout
  adopt:
    description:
      - Take over AppWrappers whose status another program wrote not long ago. Do this only when that program, such as
        MCAD, does not run any more.
    type: bool
    default: false
  keep_finished:
    description:
      - How many finished gangs are kept. Of more, those that ended first are removed, always of the namespace that has
        most, with all they have made, logs of their pods included. With V(0) none is kept, with V(-1) all are.
      - Gangs with a C(ttl) of their own follow that alone. Gangs with PersistentVolumeClaims or other objects that are
        kept, and records annotated C(muster.kube/keep=true) stay; none of them are counted.
    type: int
    default: 1000
  keep_finished_for:
    description:
      - How long finished gangs are kept, in seconds or like V(1h30m), under the same rules. With V(-1) there is no
        limit.
    type: str
    default: 7d
  accrue_seconds:
    description:
      - How often what started gangs use of a quota tree is written down, in seconds or like V(5m). It is also written
        soon after a gang ends. Budgets of queues count what is written.
      - It is at least one second, and asks for nothing where there is no quota tree.
    type: str
    default: "300"
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
  - jmespath, for gangs whose completion is given by an expression
notes:
  - When the task runs on the controller itself, without C(become) and C(async), the work is done inside the Ansible
    process and each decision is shown when it is made.
seealso:
  - module: muster.kube.elastic_balance
  - module: muster.kube.gang
  - module: muster.kube.gang_info
"""

EXAMPLES = r"""
- name: One cycle over all namespaces, for a schedule
  muster.kube.dispatch:

- name: Run as a dispatcher for an hour
  muster.kube.dispatch:
    duration: 1h
    decision_log: /var/log/muster/decisions.jsonl

- name: Start what fits in the team's own namespace, with its own rights
  muster.kube.dispatch:
    namespaces:
      - default
    policy: best_effort
    lease:
      namespace: default
  register: cycle
"""

RETURN = r"""
decisions:
  description: What was decided, in order; of gangs that wait, the last word of the run.
  returned: success
  type: list
  elements: dict
  contains:
    gang:
      description: Namespace and name of the gang.
      type: str
      sample: default/train
    uid:
      description: Uid of its record.
      type: str
      sample: 4f1f3c32-7a0a-4f5e-9f0e-6a1f6f2f9a11
    action:
      description: >-
        What was done, one of V(start), V(wait), V(stop), V(evict), V(resize), V(plan), V(running), V(complete),
        V(fail), V(queue), V(suspend), V(expire), V(recover) and V(refuse).
      type: str
      sample: wait
    reason:
      description: Why, in one word.
      type: str
      sample: insufficient
    message:
      description: Why, in a sentence or more.
      type: str
      sample: "train: waits, resources are short"
    attempt:
      description: Number of the attempt.
      type: int
      sample: 1
    phase:
      description: Phase of the gang afterwards.
      type: str
      sample: queued
    at:
      description: When, by the clock of the API server.
      type: str
      sample: "2026-01-01T00:00:00.000000Z"
    verdict:
      description:
        - The verdict behind a decision to start or to wait, as RV(muster.kube.fit_info#module:verdicts).
        - Where a quota tree keeps a gang waiting, its reason is V(quota), V(quota_reserved), V(queue_unknown),
          V(queue_forbidden), V(queue_held), V(user_limit), V(budget_spent), V(nominated) (C(how) is V(after_reclaim)
          then), V(flavor_unreachable), V(quota_unreadable) or V(quota_not_visible), and the layer C(quota) has the
          numbers.
      type: dict
decisions_dropped:
  description: How many older decisions are missing because the result holds 10000 at most; O(decision_log) has all.
  returned: success
  type: int
  sample: 0
cycles:
  description: How many cycles were run, none when another dispatcher held the Lease.
  returned: success
  type: int
  sample: 1
coordination:
  description:
    - V(cluster) when the Lease of the cluster decided, V(namespace) when this account could only use one of the
      namespace, which promises no safety against dispatchers elsewhere.
  returned: success
  type: str
  sample: cluster
holder:
  description: Who holds the Lease when this task did not get it.
  returned: success
  type: str
  sample: null
unseen:
  description:
    - What this account may not read. Room promised to gangs there is known from the Lease alone.
  returned: success
  type: list
  elements: str
  sample: []
requests:
  description: Requests sent to the API server, by method.
  returned: success
  type: dict
  sample:
    GET: 12
    POST: 4
seconds:
  description:
    - Time spent in all, and by all cycles together on reading, looking after, deciding, carrying out, telling, and
      tidying up after finished gangs.
  returned: success
  type: dict
  sample:
    all: 0.41
    read: 0.08
    look_after: 0.01
    decide: 0.02
    carry_out: 0.21
    tell: 0.05
    tidy: 0.01
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
    object: namespaces
    cause: the list is empty; leave the option out to mean all namespaces
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.dispatch import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
