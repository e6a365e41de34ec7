# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds that are known to make no pods: a gang may hold those of a namespace, and they count nothing."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import Kind, no_pods

# Names by group.
_NAMESPACED = {
    "": (
        "ConfigMap Endpoints Event LimitRange PersistentVolumeClaim PodTemplate ResourceQuota Secret "
        "Service ServiceAccount"
    ),
    "apps": "ControllerRevision",
    "autoscaling": "HorizontalPodAutoscaler",
    "cert-manager.io": "Certificate Issuer",
    "coordination.k8s.io": "Lease",
    "discovery.k8s.io": "EndpointSlice",
    "events.k8s.io": "Event",
    "external-secrets.io": "ExternalSecret SecretStore",
    "gateway.networking.k8s.io": "GRPCRoute HTTPRoute ReferenceGrant",
    "kueue.x-k8s.io": "LocalQueue Workload",
    "monitoring.coreos.com": "PodMonitor PrometheusRule ServiceMonitor",
    "networking.k8s.io": "Ingress NetworkPolicy",
    "policy": "PodDisruptionBudget",
    "rbac.authorization.k8s.io": "Role RoleBinding",
    "resource.k8s.io": "ResourceClaim ResourceClaimTemplate",
    "route.openshift.io": "Route",
    "scheduling.k8s.io": "PodGroup Workload",
    "scheduling.volcano.sh": "PodGroup",
    "scheduling.x-k8s.io": "ElasticQuota PodGroup",
    "trainer.kubeflow.org": "TrainingRuntime",
}

_CLUSTER_SCOPED = {
    "": "ComponentStatus Namespace Node PersistentVolume",
    "admissionregistration.k8s.io": (
        "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration "
        "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration"
    ),
    "apiextensions.k8s.io": "CustomResourceDefinition",
    "apiregistration.k8s.io": "APIService",
    "authentication.k8s.io": "SelfSubjectReview TokenReview",
    "cert-manager.io": "ClusterIssuer",
    "certificates.k8s.io": "CertificateSigningRequest ClusterTrustBundle",
    "cluster.x-k8s.io": "ClusterClass",
    "external-secrets.io": "ClusterExternalSecret ClusterSecretStore",
    "flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
    "gateway.networking.k8s.io": "GatewayClass",
    "internal.apiserver.k8s.io": "StorageVersion",
    "kueue.x-k8s.io": (
        "AdmissionCheck ClusterQueue Cohort MultiKueueCluster MultiKueueConfig ProvisioningRequestConfig "
        "ResourceFlavor Topology WorkloadPriorityClass"
    ),
    "kyverno.io": "ClusterPolicy",
    "networking.k8s.io": "IPAddress IngressClass ServiceCIDR",
    "node.k8s.io": "RuntimeClass",
    "policy": "PodSecurityPolicy",
    "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding",
    "resource.k8s.io": "DeviceClass DeviceTaintRule ResourceSlice",
    "scheduling.k8s.io": "PriorityClass",
    "scheduling.volcano.sh": "Queue",
    "security.openshift.io": "SecurityContextConstraints",
    "storage.k8s.io": "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
    "storagemigration.k8s.io": "StorageVersionMigration",
    "trainer.kubeflow.org": "ClusterTrainingRuntime",
}


PODLESS_KINDS = tuple(
    Kind(group, name, no_pods, cluster_scoped=cluster_scoped)
    for groups, cluster_scoped in ((_NAMESPACED, False), (_CLUSTER_SCOPED, True))
    for group, names in groups.items()
    for name in names.split()
)
