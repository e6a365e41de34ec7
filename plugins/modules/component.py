#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: component
short_description: Keep a set of Kubernetes objects as described, and take it away again
version_added: 0.1.0
description:
  - Makes the objects of a component, for example an operator or the rights of a team, as their definitions say, removes
    what the definitions no longer name, and waits until it works.
  - All objects get the label C(muster.kube/component) with the name of the component. By this label they are found
    again. Objects without it are never removed.
  - The server's dry run tells beforehand what would change and what it would refuse. Nothing is written if any part is
    refused, and what is as described already is not written at all.
  - Definitions of kinds come first, then namespaces, then the rest in the order given. A run that was interrupted is
    finished by the next one.
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
    details:
      - The server's dry run tells what would be done. Objects whose namespace or kind is among the definitions and does
        not exist yet cannot be tried. They are told as RV(objects[].untried).
  diff_mode:
    support: full
    details:
      - The difference shows the fields that change. Values of Secrets are not shown.
  idempotent:
    support: full
options:
  name:
    description:
      - Name of the component, the value of its label. Two tasks with different definitions need different names, or
        O(prune=false).
      - The roles of this collection use C(appwrappers), C(dispatcher), C(inspection), C(quota-tree) and names that
        begin with C(quota-tree.), C(elastic-training.) or C(elastic-service.).
    type: str
    required: true
  state:
    description:
      - With V(present) the objects are as described.
      - With V(absent) the objects of the component are removed, in reverse order. Without O(prune) only those that the
        definitions name. Those that do not carry its label stay.
      - A namespace is removed only if this module made it, and stays as long as builds, inspections, gangs or quota
        trees are recorded in it, or another component has objects there.
      - The definition of a kind stays as long as there are objects of it that are not of the component.
      - Objects of kinds other than the usual ones go first. With O(wait) the rest follows when they are gone, so that
        an operator is there as long as it has to clean up.
    type: str
    default: present
    choices:
      - present
      - absent
  definition:
    description:
      - The objects of the component, as a mapping, a list of mappings, or YAML text with one or more documents.
      - An object that exists without the label of the component is refused and left as it is, so that nothing is
        overwritten, and later removed, that somebody else made. To hand one over, give it the label. A namespace that
        somebody else made is used and left as it is.
      - An object that is being deleted is refused too.
      - Objects that name no namespace lie in C(default).
      - With O(state=absent) it may be left out. It then tells which kinds the component has besides the usual ones, and
        where to look with rights in some namespaces only.
    type: raw
    aliases:
      - inline
      - objects
  src:
    description:
      - A file with the objects, as YAML with one or more documents.
      - It is looked for as M(kubernetes.core.k8s) does it, in the role, beside the playbook and in C(files) there.
    type: path
  prune:
    description:
      - Whether objects of the component that the definitions do not name are removed.
      - They are looked for among the usual kinds of manifests (rights, accounts, ConfigMaps, Secrets, Services,
        workloads, webhooks and the like) and the kinds of the definitions.
      - Definitions of kinds, namespaces and PersistentVolumeClaims are removed with O(state=absent) only, since what
        others keep in them would go too.
    type: bool
    default: true
  wait:
    description:
      - Whether to wait until the component works. Deployments, StatefulSets and DaemonSets have all pods available and
        up to date, Jobs are complete, definitions of kinds are established.
      - With O(state=absent), until all is gone.
    type: bool
    default: true
  wait_timeout:
    description:
      - How long to wait at most, in seconds or as C(1h30m), for new kinds to be served, for workloads to be available,
        and with O(state=absent) for the first objects and for the rest to be gone. What requests take does not count.
    type: str
    default: "120"
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
seealso:
  - module: kubernetes.core.k8s
"""

EXAMPLES = r"""
- name: Install an operator from its manifest
  muster.kube.component:
    name: widgets
    src: widget-operator.yaml
    wait_timeout: 5m

- name: Let a team read what lies in its namespace
  muster.kube.component:
    name: team-a-readers
    definition:
      apiVersion: rbac.authorization.k8s.io/v1
      kind: RoleBinding
      metadata:
        name: readers
        namespace: team-a
      roleRef:
        apiGroup: rbac.authorization.k8s.io
        kind: ClusterRole
        name: view
      subjects:
        - apiGroup: rbac.authorization.k8s.io
          kind: Group
          name: team-a

- name: Take the operator away, with everything that was installed for it
  muster.kube.component:
    name: widgets
    state: absent
"""

RETURN = r"""
objects:
  description: >-
    The objects of the definitions, in the order in which they are made, and then those that were removed.
  returned: success, and when waiting was in vain
  type: list
  elements: dict
  contains:
    apiVersion:
      description: Version of the API.
      type: str
      sample: apps/v1
    kind:
      description: Kind of the object.
      type: str
      sample: Deployment
    namespace:
      description: Its namespace. None for objects without.
      type: str
      sample: widgets
    name:
      description: Its name.
      type: str
      sample: operator
    action:
      description: What was done, V(created), V(changed), V(unchanged) or V(pruned), which is removed.
      type: str
      sample: created
    untried:
      description: >-
        Whether the server could not be asked beforehand, because the namespace or the kind of the object was still
        to be made.
      type: bool
      sample: false
unseen:
  description: >-
    Where objects of the component may be left that this account may not list, when something was to be removed.
  returned: success
  type: list
  elements: str
  sample:
    - clusterrolebindings
kept:
  description: >-
    Names of namespaces and definitions of kinds of the component that stay, because builds, inspections or gangs are
    recorded in them, or others have objects there.
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
  description: >-
    The failed action, its object and the cause. When the server refuses several objects, C(refusals) tells each.
  returned: failure
  type: dict
  sample:
    action: patch
    object: RoleBinding team-a/readers
    cause: no right to do that (HTTP 403 Forbidden)
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.component import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
