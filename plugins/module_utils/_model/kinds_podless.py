# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds that are known to make no pods; a gang may hold them, and they count nothing."""

from __future__ import annotations

_PODLESS: dict[str, tuple[str, ...]] = {
    "": (
        "ConfigMap",
        "Endpoints",
        "Event",
        "LimitRange",
        "Namespace",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "PodTemplate",
        "ResourceQuota",
        "Secret",
        "Service",
        "ServiceAccount",
    ),
    "admissionregistration.k8s.io": (
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ),
    "apiextensions.k8s.io": ("CustomResourceDefinition",),
    "apps": ("ControllerRevision",),
    "autoscaling": ("HorizontalPodAutoscaler",),
    "cert-manager.io": ("Certificate", "ClusterIssuer", "Issuer"),
    "coordination.k8s.io": ("Lease",),
    "discovery.k8s.io": ("EndpointSlice",),
    "events.k8s.io": ("Event",),
    "external-secrets.io": ("ClusterSecretStore", "ExternalSecret", "SecretStore"),
    "gateway.networking.k8s.io": ("GRPCRoute", "HTTPRoute", "ReferenceGrant"),
    "kueue.x-k8s.io": (
        "AdmissionCheck",
        "ClusterQueue",
        "Cohort",
        "LocalQueue",
        "ResourceFlavor",
        "Topology",
        "Workload",
        "WorkloadPriorityClass",
    ),
    "monitoring.coreos.com": ("PodMonitor", "PrometheusRule", "ServiceMonitor"),
    "networking.k8s.io": ("Ingress", "IngressClass", "NetworkPolicy"),
    "node.k8s.io": ("RuntimeClass",),
    "policy": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "resource.k8s.io": ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate"),
    "route.openshift.io": ("Route",),
    "scheduling.k8s.io": ("PodGroup", "PriorityClass", "Workload"),
    "scheduling.volcano.sh": ("PodGroup", "Queue"),
    "scheduling.x-k8s.io": ("ElasticQuota", "PodGroup"),
    "storage.k8s.io": ("StorageClass", "VolumeAttributesClass"),
}

PODLESS_KINDS: frozenset[tuple[str, str]] = frozenset(
    (group, kind) for group, kinds in _PODLESS.items() for kind in kinds
)
