#!/usr/bin/python
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: component_info
short_description: Tell what components there are, whether they work, and what has changed since
version_added: 0.1.0
description:
  - Tells of each component with a record which version it has, how far it is, and what became of each step by which
    M(muster.kube.component) judges it, as it is now and without waiting.
  - With O(components) each is compared with what it should be, by the server's dry run, and drift is told by field.
    What somebody else has installed is told with its version and owner.
  - Webhooks, APIs and definitions of kinds are told that call a Service that does not exist, and definitions that a
    component has left behind.
  - Nothing is ever written to the cluster.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - muster.kube._attributes.info
  - muster.kube._attributes.action_group
author:
  - The muster.kube authors (@muster-kube)
options:
  names:
    description:
      - Only the components of these names. Without it and without O(components), all that have a record.
    type: list
    elements: str
  components:
    description:
      - Components as they should be, as M(muster.kube.component) takes them.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name of the component.
        type: str
        required: true
      source:
        description:
          - Where the objects come from, V(manifest) for a definition or a file, V(kustomize) for a directory, V(helm)
            for a chart.
        type: str
        choices:
          - manifest
          - kustomize
          - helm
      chart:
        description:
          - The chart, a folder, an archive, a reference, or its name in O(components[].repository).
        type: str
      repository:
        description:
          - The address of the repository that has the chart.
        type: str
      chart_version:
        description:
          - The version of the chart.
        type: str
      digest:
        description:
          - The digest that the chart should have.
        type: str
      release:
        description:
          - The name of the release. By default that of the component.
        type: str
      values:
        description:
          - Values for the chart.
        type: dict
      secret_values:
        description:
          - Values that nobody may see, laid over the others.
        type: dict
      definition:
        description:
          - The objects of the component, as a mapping, a list of mappings, or YAML text.
        type: raw
        aliases:
          - inline
          - objects
      src:
        description:
          - A file with the objects, or the directory of a kustomization.
        type: path
      version:
        description:
          - The version that it should have.
        type: str
      namespace:
        description:
          - Where objects lie that name no namespace.
        type: str
      resources:
        description:
          - Objects that are made once the component is ready for them.
        type: raw
      depends_on:
        description:
          - Names of components that have to be ready first.
        type: list
        elements: str
      condition:
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
            description: Type of the condition. This or O(components[].condition.path) is needed.
            type: str
          status:
            description: The status that the condition has to have.
            type: str
            default: "True"
          path:
            description: Names of fields with dots between them, instead of a condition.
            type: str
          value:
            description: What has to be there.
            type: str
      nodes:
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
      smoke:
        description:
          - A smoke test. It is not made here.
        type: dict
        suboptions:
          definition:
            description: The objects, as in C(definition).
            type: raw
            required: true
          condition:
            description: The type of a condition for which objects are waited whose kind tells nothing by itself.
            type: str
      row:
        description:
          - What a catalogue knows of the component. The role C(operator_stack) gives it.
        type: dict
        suboptions:
          title:
            description: What it is for.
            type: str
          proof:
            description: How sure it is that it works.
            type: str
          features:
            description: What is turned on.
            type: list
            elements: str
          api_versions:
            description: What it serves.
            type: list
            elements: str
          kubernetes:
            description: A range of versions such as C(>=1.29 <1.37).
            type: str
          reinvoke_beside:
            description: Components that change the same objects.
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
  helm_path:
    description:
      - The program C(helm), if C(PATH) does not lead to it.
    type: path
  kubectl_path:
    description:
      - The program C(kubectl), if C(PATH) does not lead to it.
    type: path
  record_namespace:
    description:
      - The namespace of the records.
    type: str
    default: muster-system
requirements:
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
seealso:
  - module: muster.kube.component
"""

EXAMPLES = r"""
- name: Look whether all components work
  muster.kube.component_info:
  register: stack

- name: Fail if one does not
  ansible.builtin.assert:
    that: stack.components | map(attribute='health') | flatten | selectattr('outcome', 'eq', 'failed') | length == 0

- name: Tell what somebody has changed by hand
  muster.kube.component_info:
    components:
      - name: widgets
        source: kustomize
        src: widget-operator/config/default
"""

RETURN = r"""
components:
  description: The components, those by name or record first.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the component.
      type: str
      sample: widgets
    phase:
      description: >-
        How far it is, V(installing), V(installed), V(upgrading), V(removing), V(absent), V(found) if somebody else
        has it, or V(unknown) if its record cannot be read.
      type: str
      sample: installed
    version:
      description: Its version.
      type: str
      sample: 1.4.2
    owner:
      description: Who has installed it. None if nobody has.
      type: str
      sample: component widgets
    health:
      description: >-
        The steps as they are now, without the smoke test. Each has C(step), C(outcome), C(reason), C(object) and
        C(seconds).
      type: list
      elements: dict
      sample:
        - step: workloads
          outcome: passed
          object: null
          reason: 1 looked at
          seconds: 0.0
    drift:
      description: >-
        Objects of O(components) that are not as they should be, as in RV(muster.kube.component#module:objects), with
        the fields C(before) and C(after). Values of Secrets are not shown.
      type: list
      elements: dict
      sample: []
    missing:
      description: Recorded objects that are not there.
      type: list
      elements: str
      sample:
        - ConfigMap widgets/settings
    surplus:
      description: Objects of the component that its definitions do not name.
      type: list
      elements: str
      sample: []
    depends_on:
      description: The recorded names of components that it needs.
      type: list
      elements: str
      sample: []
    problem:
      description: Why it could not be compared. None if it could.
      type: str
      sample: null
orphans:
  description: >-
    Webhook configurations, APIs and definitions of kinds that point to nobody. Each has C(kind), C(name), C(owner) and
    C(reason).
  returned: success
  type: list
  elements: dict
  sample:
    - kind: ValidatingWebhookConfiguration
      name: gadgets
      owner: helm release gadgets/gadgets
      reason: it calls Service gadgets/webhook, which does not exist
error:
  description: The failed action, its object and the cause.
  returned: failure
  type: dict
  sample:
    action: read
    object: component widgts
    cause: it does not exist; did you mean widgets?
"""

from ansible_collections.muster.kube.plugins.module_utils._face.modules.component_info import FACE
from ansible_collections.muster.kube.plugins.module_utils._face.running import run_module


def main() -> None:
    """Do what the face declares."""
    run_module(FACE)


if __name__ == "__main__":
    main()
