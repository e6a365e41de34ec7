#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: checkpoint
short_description: Tell how far the training of an elastic gang is, and what of it is safely stored
version_added: 0.1.0
description:
  - Reports the step of a training, and whether that step is durably stored, for an elastic gang that runs. Dispatchers
    learn from it how fast it is at which size, and change its size only after a checkpoint where its terms say so.
  - The answer tells whether the trainer should save now (RV(save_now)), because a change of size waits for that.
  - Reports that were told before, and older ones, change nothing and write nothing.
  - What is known lies in one ConfigMap beside the gang's record, C(muster-progress-) and the gang's name. The record is
    never written. Trainers that cannot run Ansible report to the same place by the one Python file of the role
    P(muster.kube.elastic_training#role).
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - muster.kube._attributes
  - muster.kube._attributes.action_group
  - muster.kube._in_process
author:
  - The muster.kube authors (@muster-kube)
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description:
      - Name of the gang. It has to be elastic and to run.
    type: str
    required: true
  namespace:
    description:
      - Namespace of the gang.
    type: str
    default: default
  step:
    description:
      - The step that the training has done. A later report of an earlier step means that it was restarted.
      - Without it, and without O(completed=true), nothing is told and the answer only says what is known.
    type: int
  total_steps:
    description:
      - How many steps there are in all. It is remembered. A step beyond it is refused.
    type: int
  size:
    description:
      - The size at which the steps were done. The default is the one that the gang has now.
    type: int
  saved:
    description:
      - Whether O(step) is durably stored. Say so only after the checkpoint was written.
    type: bool
    default: false
  completed:
    description:
      - Whether the training is done. The last step told is the last one of all.
    type: bool
    default: false
  time:
    description:
      - When that was, as V(2026-01-01T00:00:00Z). The default is now, by the clock of the API server. A time in the
        future is refused. One that is not after the last report changes nothing.
    type: str
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
seealso:
  - module: muster.kube.gang
  - module: muster.kube.dispatch
"""

EXAMPLES = r"""
- name: Tell that step 1200 of 9000 is safely stored
  muster.kube.checkpoint:
    name: train
    namespace: default
    step: 1200
    total_steps: 9000
    saved: true

- name: Ask whether the trainer should save now
  muster.kube.checkpoint:
    name: train
    namespace: default
  register: answer

- name: Say so
  ansible.builtin.debug:
    msg: "Save now, the size changes from {{ answer.resize.from }} to {{ answer.resize.to }}"
  when: answer.save_now
"""

RETURN = r"""
allotment:
  description: The size that the gang has.
  returned: success
  type: int
  sample: 4
progress:
  description: What is known of the training, after this report.
  returned: success
  type: dict
  contains:
    step:
      description: The last step that was told. None before the first.
      type: int
      sample: 1200
    total:
      description: How many steps there are in all. None where nobody told it.
      type: int
      sample: 9000
    share:
      description: The part that is done, from 0 to 1. None where the total is not known.
      type: float
      sample: 0.1333
    speeds:
      description: Steps a second by size, of the sizes at which it was measured.
      type: dict
      sample:
        "4": 2.05
    checkpoint:
      description: The last step that is safely stored, and since when. None before the first.
      type: dict
      sample:
        step: 1200
        time: "2026-01-01T00:10:00.000000Z"
    checkpoints:
      description: The last eight of them, the last one at the end.
      type: list
      elements: dict
      sample:
        - step: 1200
          time: "2026-01-01T00:10:00.000000Z"
    unsaved:
      description: How many steps would have to be done again if it were stopped now.
      type: int
      sample: 0
resize:
  description:
    - The last change of the gang's size, or the one that is planned, as in RV(muster.kube.gang_info#module:gangs).
      None when there was none.
  returned: success
  type: dict
  sample:
    from: 4
    to: 2
    why: another gang waits for its GPUs
    since: "2026-01-01T00:09:00.000000Z"
    step: planned
save_now:
  description: Whether a change of size waits for a checkpoint that was not told yet.
  returned: success
  type: bool
  sample: false
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
    action: report progress of
    object: gang default/trian
    cause: there is no such gang; did you mean train?
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.elastic.checkpoint import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
