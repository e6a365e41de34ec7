#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: elastic_balance
short_description: Decide about the sizes of all elastic gangs
version_added: 0.1.0
description:
  - Makes one decision about the sizes of all gangs that have a range of sizes (O(muster.kube.gang#module:elastic)), and
    has it carried out. Running gangs shrink for a gang that waits for nodes, and grow where there is room for it and
    nobody waits. It is the decision that every dispatcher makes in each of its cycles.
  - Tells of each gang its size, the one it is to have and why, and of each idle GPU why nobody gets it. In check mode
    that is all it does.
  - O(policy), O(worth), O(near_end), O(most_resizes) and O(patience) are settings of all dispatchers of the Lease. They
    are kept in a ConfigMap beside it, named after the Lease with C(-elastic) at the end. Those that are not given stay
    as they are. Dispatchers read them while there are elastic gangs. While they cannot be read, or only a later version
    of this collection can read them, no gang is resized, and results of dispatchers say so. Gangs are started
    nevertheless.
  - While nobody holds the Lease, the task takes it and runs cycles that only resize running gangs, start these again,
    and look after started gangs as every dispatcher does. It starts and evicts nobody else. Gangs for which others made
    room are started by a dispatcher.
  - While a dispatcher holds the Lease, that one decides, and the task waits until it has. A dispatcher looks at the
    latest after ten seconds, and at once when a setting changes.
  - A task rather than a state. It needs nothing installed in the cluster.
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
    details:
      - Returns the decision that a cycle would make now, without the Lease. What follows from it in later cycles is
        not foreseen.
  diff_mode:
    support: full
    details:
      - The difference shows the settings that change. RV(jobs) tells of the gangs.
  idempotent:
    support: full
    details:
      - Where no setting changes, no gang is to be resized now and none is between two sizes, nothing is written, not
        even the Lease.
options:
  namespaces:
    description:
      - Only gangs of these namespaces are resized. Their objects are then created with the rights of the account that
        runs the task, so everybody who may write records there can use them. The settings are those of all namespaces
        all the same.
      - When not given, gangs of all namespaces are resized, and objects are created by impersonating the ServiceAccount
        C(muster) of the gang's namespace.
    type: list
    elements: str
  policy:
    description:
      - Who gets GPUs that are free, step by step. Without any setting it is V(afs).
      - V(afs) gives a step to the shorter of two jobs, unless the longer one makes more of it. V(relative_speedup) to
        whom each GPU makes faster by most. V(marginal_gain) to whom each GPU saves most time. V(shortest_remaining) to
        whoever ends first. V(deadline) to whoever would be late at its size, but not at its largest one
        (O(muster.kube.gang#module:elastic.deadline)), the most urgent first, else as V(marginal_gain).
      - V(max_min) gives it to whoever has the smallest part of its range. V(attained_service) to whoever had the fewest
        GPU-seconds so far, which dispatchers count for the pods that have the size, from when their objects are there
        until they are taken back. V(least_progress) to whoever has done the smallest part of its work.
        V(latest_checkpoint) to whoever saved its work last.
      - How far a job is, how fast it is at which size, and when it saved, only its trainer can tell. Of a job of which
        nobody told it, it is assumed that it takes as long again as it has run, and that its speed grows with its size.
        For V(least_progress) and V(latest_checkpoint) it comes last. Among equals the one that gains most goes first,
        then the order of the queue decides.
    type: str
    choices:
      - latest_checkpoint
      - least_progress
      - shortest_remaining
      - marginal_gain
      - relative_speedup
      - afs
      - max_min
      - attained_service
      - deadline
  worth:
    description:
      - A running gang grows only where that saves so many times what the restart costs, and shrinks only where it has
        so long to run. Without any setting it is 3.
    type: float
  near_end:
    description:
      - A gang is not resized any more when so small a part of its work is left. Without any setting it is 0.05.
    type: float
  most_resizes:
    description:
      - How many gangs are resized at a time. With V(0) none is, with V(-1) any number. Without any setting it is 4.
    type: int
  patience:
    description:
      - A gang that has waited in the queue for longer, in seconds or like V(1h30m), is not passed by those behind it
        where room is made by shrinking others. Without any setting it is one hour.
    type: str
  wait:
    description:
      - Whether to wait until all resizes have ended. Otherwise gangs that are resized may still have to be started
        again by the next dispatcher, so one should be running.
    type: bool
    default: true
  wait_timeout:
    description:
      - How long to wait, in seconds or like V(1h30m). What is not done by then is told as a warning, and goes on when
        the next dispatcher runs.
    type: str
    default: 10m
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
  - jmespath, for gangs whose completion is given by an expression
notes:
  - Guards hold whatever is asked for. A gang is not resized within its cooldown, when the restart is not worth it, nor
    when its namespace or its queue has no quota for a larger size.
seealso:
  - module: muster.kube.dispatch
  - module: muster.kube.gang
"""

EXAMPLES = r"""
- name: Who would get which size, and why GPUs are idle
  muster.kube.elastic_balance:
  check_mode: true
  register: sizes

- name: Favor the jobs that have had least so far, resize two at a time
  muster.kube.elastic_balance:
    policy: attained_service
    most_resizes: 2
    wait_timeout: 30m

- name: Resize the gangs of the team's own namespace, with its own rights
  muster.kube.elastic_balance:
    namespaces:
      - default
    lease:
      namespace: default
"""

RETURN = r"""
jobs:
  description: The elastic gangs that wait or are started, by namespace and name, and what was decided about each.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the gang.
      type: str
      sample: train
    namespace:
      description: Its namespace.
      type: str
      sample: default
    queue:
      description: The queue it names, if it does.
      type: str
      sample: null
    size:
      description: The size that it had; 0 when it waits.
      type: int
      sample: 2
    to:
      description: The size that it is to have. It is that of RV(jobs[].size) where nothing changes.
      type: int
      sample: 4
    reason:
      description:
        - Why, in one word. V(starts), V(grows) and V(shrinks) are changes, V(waits) and V(behind) are said of gangs in
          the queue.
        - Others keep their size for V(at_max), V(no_room), V(busy), V(cooldown), V(no_checkpoint), V(near_end),
          V(not_worth), V(not_measured), V(queued_work), V(too_many), V(no_gain), V(quota), or V(settings) when these
          cannot be read.
      type: str
      sample: grows
    message:
      description: The same in a sentence.
      type: str
      sample: there is room for it, and nobody waits for that
    when:
      description: >-
        When it changes, V(now), V(at_checkpoint) or V(after_others), which is when others have made room; null where
        nothing changes.
      type: str
      sample: now
    for:
      description: >-
        The gang that it shrinks for, or that it may not pass in the queue. One of other namespaces than those of the
        task is named by its queue alone.
      type: str
      sample: null
    wanted:
      description: The next size that it does not get, if there is one.
      type: int
      sample: null
    score:
      description: What the policy says of its next step, more is better; null parts are worth nothing.
      type: list
      elements: float
      sample: [0.25]
    phase:
      description: Its phase at the end of the task; V(gone) when its record was deleted.
      type: str
      sample: running
    allotment:
      description: The size that it has at the end of the task; 0 when it waits.
      type: int
      sample: 4
    resize:
      description: >-
        Its last resize, if that began during the task, as RV(muster.kube.gang#module:gangs[].resize). Its step says how
        it ended, V(verified), V(rolled_back) or V(parked).
      type: dict
      sample: null
idle:
  description: The GPUs of each node that nobody has or gets by the decision.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: The node.
      type: str
      sample: gpu-1
    resource:
      description: What is idle.
      type: str
      sample: nvidia.com/gpu
    count:
      description: How many.
      type: int
      sample: 2
    reason:
      description: >-
        Why nobody gets them. V(no_jobs) when no elastic gang has such GPUs, V(too_few) when gangs that wait need more,
        else the reason of RV(jobs) that keeps gangs from growing.
      type: str
      sample: at_max
    jobs:
      description: The gangs of which that is true.
      type: list
      elements: str
      sample: [default/train]
resized:
  description: The gangs that were resized, or in check mode would be now, by namespace and name.
  returned: success
  type: list
  elements: str
  sample: [default/train]
carried_out_by:
  description:
    - V(self) when this task held the Lease, V(dispatcher) when somebody else did and has decided, or with O(wait=false)
      will.
    - Null when there was nothing to carry out, in check mode, and when the holder of the Lease has not decided in time.
  returned: success
  type: str
  sample: self
holder:
  description: Who held the Lease when this task did not get it.
  returned: success
  type: str
  sample: null
settings:
  description: The settings by which sizes are decided, or in check mode would be.
  returned: success
  type: dict
  sample:
    policy: afs
    worth: 3.0
    near_end: 0.05
    most_resizes: 4
    patience: 3600.0
unseen:
  description: What this account may not read. Room promised to gangs there is known from the Lease alone.
  returned: success
  type: list
  elements: str
  sample: []
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
    action: change
    object: ConfigMap muster-system/dispatch-elastic
    cause: it has format 2, this version knows up to 1
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.elastic.elastic_balance import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
