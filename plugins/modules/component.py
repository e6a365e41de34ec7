#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: component
short_description: Keep operators and other sets of Kubernetes objects as described, and take them away again
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
  - With O(source) or O(components) a component has a record, a ConfigMap in O(record_namespace). It is written before
    the first object, under one Lease for all provisioning of a cluster, so that two runs never mix, and a run that was
    killed anywhere is finished by the next. Such a component is judged step by step, upgraded with care, and removed
    with what its operator made by itself.
  - What somebody else has installed is told with its version and its owner, and not touched.
  - Before a component with a record is written, versions, rights and webhooks are looked at. What is missing is told
    with the role that would be needed, and nothing is written.
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
      - With a record it has small letters, digits, dots and dashes only.
      - It is required unless O(components) are given.
    type: str
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
  definition: &definition
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
  src: &src
    description:
      - A file with the objects, as YAML with one or more documents.
      - It is looked for as M(kubernetes.core.k8s) does it, in the role, beside the playbook and in C(files) there.
      - With a record it may be the address of a file, beginning with C(https://).
      - With O(source=kustomize) the directory of the kustomization, or the address of one, which C(kubectl) fetches by
        C(git).
    type: path
  source: &source
    description:
      - Where the objects come from, V(manifest) for O(definition) or O(src), V(kustomize) for O(src) with a
        kustomization, which C(kubectl) renders, V(helm) for O(chart), which C(helm) renders and installs.
      - A component does not change between V(helm) and the others. Remove it before.
      - With it the component has a record. Objects of kinds that it defines itself are made when its workloads and
        webhooks are ready for them.
      - Without it, V(absent) removes a component by its record if it has one.
    type: str
    choices:
      - manifest
      - kustomize
      - helm
  chart: &chart
    description:
      - The chart of O(source=helm), a folder, an archive, a reference that begins with C(oci://), or the name of a
        chart in O(repository). O(namespace) is needed with it.
      - Whether the release is as it should be is told from what helm keeps of it, a render, and the server's dry run.
        helm writes only if something differs, so a second run makes no revision.
      - Definitions of kinds in C(crds/) are kept as those of other sources. Those among the templates of a chart are
        helm's, and go with the release.
    type: str
  repository: &repository
    description:
      - The address of the repository that has the chart.
    type: str
  chart_version: &chart_version
    description:
      - The version of the chart. One that is on this machine and has another is refused.
    type: str
  digest: &digest
    description:
      - The digest of the chart, C(sha256:) and 64 hexadecimal digits. A chart with another one is refused.
    type: str
  release: &release
    description:
      - The name of the release. By default that of the component.
    type: str
  values: &values
    description:
      - Values for the chart. What they do not name has the value of the chart, whatever an earlier revision had.
    type: dict
  secret_values: &secret_values
    description:
      - Values that nobody may see, laid over O(values). They are handed to helm in a file that only we may read.
    type: dict
  version: &version
    description:
      - The version of the component. An older one than the recorded is refused.
      - Whatever the version says, definitions of kinds are refused that lose a version in which objects are stored, or
        in which somebody has written objects that exist.
    type: str
  namespace: &namespace
    description:
      - Where objects lie that name no namespace. It is made if it is missing.
    type: str
  resources: &resources
    description:
      - Objects that are made once the workloads and webhooks of the component are ready, as in O(definition).
    type: raw
  depends_on: &depends_on
    description:
      - Names of components, of the same task or with a record, that have to be ready first.
      - Components that do not depend on each other are waited for side by side. A component is not removed while
        another one that stays depends on it.
    type: list
    elements: str
  condition: &condition
    description:
      - A condition of an object that tells that the component works.
    type: dict
    suboptions:
      api_version:
        description: Version of the object's API.
        type: str
        required: true
      kind:
        description: Kind of the object.
        type: str
        required: true
      name:
        description: Name of the object.
        type: str
        required: true
      namespace:
        description: Its namespace, by default that of the component.
        type: str
      type:
        description: Type of the condition. This or O(condition.path) is needed.
        type: str
      status:
        description: The status that the condition has to have.
        type: str
        default: "True"
      path:
        description: Names of fields with dots between them, such as C(status.phase), instead of a condition.
        type: str
      value:
        description: What has to be there.
        type: str
  nodes: &nodes
    description:
      - What at least one node has when the component works.
    type: dict
    suboptions:
      labels:
        description: Labels, as C(key) or C(key=value).
        type: list
        elements: str
      resources:
        description: Names of resources of which the node has some to give.
        type: list
        elements: str
  smoke: &smoke
    description:
      - Objects that are made at last, have to become what they are for, and are taken away again. What a version has
        passed is not tried again.
    type: dict
    suboptions:
      definition:
        description: The objects, as in O(definition).
        type: raw
        required: true
      condition:
        description: The type of a condition for which objects are waited whose kind tells nothing by itself.
        type: str
  row: &row
    description:
      - What a catalogue knows of the component. The role C(operator_stack) gives it.
    type: dict
    suboptions:
      title:
        description: What it is for. Told in RV(components[].row).
        type: str
      proof:
        description: How sure it is that it works. Told in RV(components[].row).
        type: str
      features:
        description: What is turned on. Told in RV(components[].row).
        type: list
        elements: str
      api_versions:
        description: What it serves. Told in RV(components[].row).
        type: list
        elements: str
      kubernetes:
        description: A range of versions such as C(>=1.29 <1.37). Another server is refused before anything is written.
        type: str
      reinvoke_beside:
        description:
          - Components that change the same objects. Beside these its mutating webhooks have to be called again, or it
            is refused before anything is written.
        type: list
        elements: str
      expects:
        description: What has to be there whoever makes it. The steps of the ladder judge it too.
        type: dict
        suboptions:
          definitions:
            description: Names of definitions of kinds.
            type: list
            elements: str
          workloads:
            description: Kinds and names with namespaces, as C(Deployment widgets/operator).
            type: list
            elements: str
          webhooks:
            description: Kinds and names, as C(ValidatingWebhookConfiguration widgets).
            type: list
            elements: str
      removal:
        description: What to know when it is removed.
        type: dict
        suboptions:
          first:
            description:
              - Kinds with their groups, as C(Widget.example.com), whose objects go first, one kind after the other.
            type: list
            elements: str
          leaves:
            description:
              - What it makes by itself and leaves behind, as C(Lease widgets/leader). It is removed at last.
            type: list
            elements: str
  components:
    description:
      - Several components in one task. The order does not matter.
      - Each has a record. See the options of the same names.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name of the component.
        type: str
        required: true
      source: *source
      definition: *definition
      src: *src
      chart: *chart
      repository: *repository
      chart_version: *chart_version
      digest: *digest
      release: *release
      values: *values
      secret_values: *secret_values
      version: *version
      namespace: *namespace
      resources: *resources
      depends_on: *depends_on
      condition: *condition
      nodes: *nodes
      smoke: *smoke
      row: *row
  with_resources:
    description:
      - Whether to remove the objects of users too whose kinds a component defines. Otherwise they refuse its removal.
      - Only for components with a record.
    type: bool
    default: false
  remove_definitions:
    description:
      - Whether to remove the definitions of kinds with a component that has a record. Otherwise they stay and are told
        in RV(kept).
    type: bool
    default: false
  record_namespace:
    description:
      - The namespace of the records and of the Lease. It is made if it is missing, and goes with the last component.
    type: str
    default: muster-system
  helm_path:
    description:
      - The program C(helm), 3.13 or newer and older than 4, if C(PATH) does not lead to it.
    type: path
  kubectl_path:
    description:
      - The program C(kubectl), 1.21 or newer, if C(PATH) does not lead to it.
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
      - With O(state=absent), until all is gone. The removal of a component with a record is always waited for.
    type: bool
    default: true
  wait_for:
    description:
      - The last step that a component with a record has to pass. The steps are taken in this order.
      - V(source), its objects can be rendered. V(definitions), definitions of kinds are established. V(listable), their
        objects can be listed. V(workloads), there are pods and all are available. V(webhooks), whoever the API server
        calls has an endpoint and a certificate that is valid. V(condition), V(nodes) and V(smoke), see these options.
    type: str
    default: smoke
    choices:
      - source
      - definitions
      - listable
      - workloads
      - webhooks
      - condition
      - nodes
      - smoke
  wait_timeout:
    description:
      - How long to wait at most, in seconds or as C(1h30m), for new kinds to be served, for workloads to be available,
        and with O(state=absent) for the first objects and for the rest to be gone. What requests take does not count.
      - For components with records it is one time for all of them, and for the Lease before.
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

- name: Install two operators of which one needs the other
  muster.kube.component:
    components:
      - name: widgets
        version: 1.4.2
        source: kustomize
        src: widget-operator/config/default
        namespace: widgets
      - name: gadgets
        version: 0.3.0
        src: gadget-operator.yaml
        depends_on:
          - widgets
        condition:
          api_version: example.org/v1
          kind: GadgetConfig
          name: default
          type: Ready
    wait_timeout: 10m

- name: Install an operator from its chart
  muster.kube.component:
    name: widgets
    version: 1.4.2
    source: helm
    chart: oci://registry.example.com/charts/widget-operator
    chart_version: 0.9.3
    namespace: widgets
    values:
      replicas: 2
    secret_values:
      license: "{{ widgets_license }}"

- name: Take both away, with the kinds they define
  muster.kube.component:
    components:
      - name: widgets
      - name: gadgets
    state: absent
    remove_definitions: true

- name: Take the operator away, with everything that was installed for it
  muster.kube.component:
    name: widgets
    state: absent
"""

RETURN = r"""
components:
  description: >-
    What became of each component with a record, in the order of the task. One of several that failed has C(msg) and
    C(error) besides.
  returned: for components with a record
  type: list
  elements: dict
  contains:
    name:
      description: Name of the component.
      type: str
      sample: widgets
    version:
      description: Its version. Of a component that somebody else installed, as far as its objects tell.
      type: str
      sample: 1.4.2
    action:
      description: >-
        What was done, V(installed), V(upgraded), V(repaired), V(unchanged), V(removed), or V(found) if somebody else
        has it.
      type: str
      sample: installed
    owner:
      description: Who has installed a component that was found, and the object that showed it.
      type: str
      sample: helm release widgets/widgets (Deployment widgets/operator)
    plan:
      description: How many objects were created, changed, left as they are, and pruned.
      type: dict
      sample: {created: 7, changed: 0, unchanged: 1, pruned: 0}
    ladder:
      description: >-
        What became of the steps. Each has C(step), C(outcome), which is V(passed), V(failed) or V(skipped), C(reason),
        C(object), and C(seconds). Of a workload that did not get ready the reason tells what its pods, the last Event
        and the last lines of the log say.
      type: list
      elements: dict
      sample:
        - step: workloads
          outcome: failed
          object: Deployment widgets/operator
          reason: "0 of 1 pods are up to date and available; pod operator-1: ImagePullBackOff"
          seconds: 120.0
    versions:
      description: The recorded version C(before), and the one C(after).
      type: dict
      sample: {before: 1.4.1, after: 1.4.2}
    images:
      description: The images that its workloads run.
      type: list
      elements: str
      sample:
        - registry.example.com/widgets:1.4.2
    objects:
      description: As RV(objects), of this component.
      type: list
      elements: dict
      sample: []
    kept:
      description: As RV(kept), of this component.
      type: list
      elements: str
      sample: []
    unseen:
      description: As RV(unseen), of this component.
      type: list
      elements: str
      sample: []
    row:
      description: What O(components[].row) tells of it, title, proof, features and versions of its APIs.
      type: dict
      sample: {title: Widgets for everybody, proof: none}
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
