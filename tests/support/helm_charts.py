# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small chart with everything that matters to helm, and runs of ours on its release; as a program one such run."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import sys
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.chart import located_chart
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_plan import (
    HelmPlan,
    plan_release,
    plan_removal,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_program import (
    HelmProgram,
    open_helm,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_work import (
    carry_out,
    remove_release,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import write_changes
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, connect
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_source import HelmSource

SECONDS = 300.0
RELEASE = "gadget-operator"
PACKAGE = "ansible_collections.muster.kube.tests.support.helm_charts"
FILES = {
    "Chart.yaml": "apiVersion: v2\nname: gadget\nversion: 1.2.3\nappVersion: '9'\n",
    "values.yaml": "size: 1\nextra: false\nslow: false\nlooked: false\npassword: none\nneeded: ''\n",
    "crds/gadgets.yaml": """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: gadgets.helm.example.com
spec:
  group: helm.example.com
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets, singular: gadget}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
""",
    "templates/deployment.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: operator
spec:
  replicas: {{ .Values.size }}
  selector: {matchLabels: {app: gadget}}
  template:
    metadata: {labels: {app: gadget}}
    spec:
      nodeSelector: {nowhere: "true"}
      containers: [{name: main, image: "gadget:1"}]
""",
    "templates/settings.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  size: {{ .Values.size | quote }}
  kinds: {{ .Capabilities.APIVersions.Has "helm.example.com/v1/Gadget" | quote }}
  text: |
    a line
""",
    "templates/secret.yaml": """\
apiVersion: v1
kind: Secret
metadata:
  name: credentials
stringData:
  password: {{ .Values.password | quote }}
""",
    "templates/gadget.yaml": """\
apiVersion: helm.example.com/v1
kind: Gadget
metadata:
  name: one
spec:
  size: {{ .Values.size }}
""",
    "templates/extra.yaml": """\
{{- if .Values.extra }}
apiVersion: v1
kind: ConfigMap
metadata: {name: extra}
{{- end }}
""",
    "templates/looked.yaml": """\
{{- if .Values.looked }}
{{- $found := lookup "v1" "Secret" .Release.Namespace "looked" }}
apiVersion: v1
kind: Secret
metadata: {name: looked}
data:
  kept: {{ if $found }}{{ $found.data.kept }}{{ else }}{{ randAlphaNum 12 | b64enc }}{{ end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: anew}
data: {number: {{ randNumeric 9 | quote }}}
{{- end }}
""",
    "templates/hook.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: hooked
  annotations: {helm.sh/hook: "pre-install,pre-upgrade"}
data:
  upgrade: {{ .Release.IsUpgrade | quote }}
""",
    "templates/slow.yaml": """\
{{- if .Values.slow }}
apiVersion: batch/v1
kind: Job
metadata:
  name: slow
  annotations: {helm.sh/hook: "post-install,post-upgrade"}
spec:
  template:
    spec:
      nodeSelector: {nowhere: "true"}
      restartPolicy: Never
      containers: [{name: main, image: "gadget:1"}]
{{- end }}
""",
    "templates/bad.yaml": """\
{{- if .Values.needed }}
{{ fail (printf "%s is not to be seen" .Values.password) }}
{{- end }}
""",
}


def write_chart(directory: pathlib.Path) -> pathlib.Path:
    """The chart as files."""
    for name, text in FILES.items():
        path = directory / "gadget" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return directory / "gadget"


@dataclasses.dataclass(frozen=True)
class HelmRuns:
    """Runs of ours on the release of a chart in a namespace."""

    client: KubeClient
    helm: HelmProgram
    chart: pathlib.Path
    namespace: str
    component: str = "gadgets"

    def source(self, values: t.Mapping[str, t.Any], secret: t.Mapping[str, t.Any]) -> HelmSource:
        """The source with these values."""
        return HelmSource(self.component, str(self.chart), RELEASE, self.namespace, values=values, secret_values=secret)

    def plan(self, secret: t.Mapping[str, t.Any] | None = None, **values: t.Any) -> HelmPlan:
        """What would be done."""
        source = self.source(values, secret or {})
        with located_chart(self.helm, source) as chart:
            return plan_release(self.client, self.helm, chart, source)

    def run(self, secret: t.Mapping[str, t.Any] | None = None, **values: t.Any) -> str:
        """One run as a component makes it: definitions first."""
        plan = self.plan(secret, **values)
        write_changes(self.client, plan.first, self.client.clock() + SECONDS)
        carry_out(self.client, self.helm, plan, SECONDS)
        return plan.decision.action

    def remove(self) -> str:
        """Take the release away."""
        plan = plan_removal(self.client, self.source({}, {}))
        remove_release(self.client, self.helm, plan, SECONDS)
        return plan.decision.action


def open_runs(kubeconfig: str, helm: str, chart: pathlib.Path, namespace: str) -> HelmRuns:
    """Runs over a connection of their own."""
    client = connect({"kubeconfig": kubeconfig})
    return HelmRuns(client, open_helm(os.environ, client.kubeconfig, helm), chart, namespace)


def main() -> None:
    """One run, told by standard input so that no secret is among the arguments."""
    told = json.load(sys.stdin)
    runs = open_runs(told["kubeconfig"], told["helm"], pathlib.Path(told["chart"]), told["namespace"])
    runs.run(told["secret"], **told["values"])


if __name__ == "__main__":
    main()
