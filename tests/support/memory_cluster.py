# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An API server in memory, good enough to carry whole cycles of dispatchers in one process and in virtual time.

Statuses, reasons and details of its answers are those of the real one, as far as the collection asks. What
controllers do is in memory_controllers; what may go wrong between a client and the server in memory_wire.
"""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
import json
import re
import typing as t
from urllib.parse import parse_qs, unquote, urlsplit

from ansible_collections.muster.kube.tests.support.memory_selectors import field_selector, label_selector
from ansible_collections.muster.kube.tests.support.virtual_clock import VirtualClock

Object = dict[str, t.Any]
Key = tuple[str, str, str]
Listener = t.Callable[["Change"], None]

BEGINNING = datetime.datetime(2026, 11, 16, 4, 0, 0, tzinfo=datetime.UTC)
ADMIN = "admin"
APPLY = "application/apply-patch+yaml"

_JSON = json.JSONEncoder(separators=(",", ":")).encode
_OWN_RIGHTS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_PATH = re.compile(r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+/[^/]+))(?:/(?P<rest>.+))?")
_SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """How a kind is served; optimistic ones refuse a PUT without resourceVersion, or create by it what is missing."""

    api_version: str
    name: str
    plural: str
    namespaced: bool = True
    has_status: bool = False
    needs_version: bool = False
    created_by_put: bool = False
    fields: tuple[str, ...] = ()

    @property
    def resource(self) -> str:
        """Plural and group as messages name them."""
        group = self.api_version.rpartition("/")[0]
        return f"{self.plural}.{group}" if group else self.plural


KINDS = (
    Kind("v1", "ConfigMap", "configmaps"),
    Kind("v1", "Event", "events", fields=("reason", "type", "involvedObject.name", "involvedObject.uid")),
    Kind("v1", "LimitRange", "limitranges"),
    Kind("v1", "Namespace", "namespaces", namespaced=False, has_status=True, fields=("status.phase",)),
    Kind("v1", "Node", "nodes", namespaced=False, has_status=True, fields=("spec.unschedulable",)),
    Kind("v1", "PersistentVolume", "persistentvolumes", namespaced=False, has_status=True),
    Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", has_status=True),
    Kind("v1", "Pod", "pods", has_status=True, fields=("spec.nodeName", "status.phase", "spec.schedulerName")),
    Kind("v1", "ResourceQuota", "resourcequotas", has_status=True),
    Kind("v1", "Secret", "secrets", fields=("type",)),
    Kind("v1", "Service", "services", has_status=True),
    Kind("v1", "ServiceAccount", "serviceaccounts"),
    Kind("apps/v1", "Deployment", "deployments", has_status=True),
    Kind("batch/v1", "Job", "jobs", has_status=True, fields=("status.successful",)),
    Kind("coordination.k8s.io/v1", "Lease", "leases", needs_version=True, created_by_put=True),
    Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False),
    Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False),
    Kind("storage.k8s.io/v1", "CSINode", "csinodes", namespaced=False),
    Kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", namespaced=False),
    Kind(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        namespaced=False,
    ),
    Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False),
    Kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False),
    Kind("rbac.authorization.k8s.io/v1", "Role", "roles"),
)
WRAPPERS = Kind("workload.codeflare.dev/v1beta1", "AppWrapper", "appwrappers", has_status=True, needs_version=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One change of one object; version is its place in the order of all changes, before is None for a new one."""

    version: int
    plural: str
    gone: bool
    object: Object
    before: Object | None


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One request as the server understands it."""

    method: str
    path: str
    query: t.Mapping[str, str]
    body: Object | None
    user: str
    kind: Kind
    namespace: str
    name: str
    subresource: str
    content_type: str = ""

    @property
    def verb(self) -> str:
        """What rules of rights call it."""
        return _VERBS.get(self.method) or ("get" if self.name else "list")

    @property
    def dry(self) -> bool:
        """Whether it only pretends; the options in the body of a deletion count instead of those in its address."""
        if self.method == "DELETE" and self.body:
            return self.body.get("dryRun") == ["All"]
        return self.query.get("dryRun") == "All"

    @property
    def key(self) -> Key:
        """Where the object lies."""
        return self.kind.plural, self.namespace, self.name


@dataclasses.dataclass(frozen=True, slots=True)
class Denial:
    """What somebody may not do; None stands for everything, an empty namespace for requests to the whole cluster."""

    user: str
    verbs: t.Collection[str] | None = None
    plurals: t.Collection[str] | None = None
    namespaces: t.Collection[str] | None = None

    def speaks_of(self, request: Request) -> bool:
        """Whether it forbids a request."""
        return (
            re.fullmatch(self.user, request.user) is not None
            and (self.verbs is None or request.verb in self.verbs)
            and (self.plurals is None or request.kind.plural in self.plurals)
            and (self.namespaces is None or request.namespace in self.namespaces)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Barrier:
    """What admission refuses for a while.

    quota: one of the namespace is used up. webhook: one is down. denied: one refuses the object. invalid: the object is
    not as it must be. no_dry_run: a webhook has side effects, so the server does not pretend. name is a pattern.
    """

    cause: t.Literal["quota", "webhook", "denied", "invalid", "no_dry_run"]
    namespace: str
    plural: str
    until: float
    dry: bool = True
    name: str = ".*"
    # Whether deletions are judged too.
    deletions: bool = False

    def stops(self, request: Request, now: float) -> bool:
        """Whether it refuses a request; one without dry runs is met only by those who mean it."""
        place = (request.namespace, request.kind.plural) == (self.namespace, self.plural)
        if not place or now >= self.until or (self.cause == "no_dry_run" and not request.dry):
            return False
        named = str(((request.body or {}).get("metadata") or {}).get("name"))
        return (self.dry or not request.dry) and re.fullmatch(self.name, named) is not None


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, reason: str, message: str, **details: t.Any) -> None:
        """Keep it as the server tells it."""
        super().__init__(message)
        self.status = status
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": details,
            "code": status,
        }
        self.text = _JSON(body)


class _Stored:
    """An object, never changed in place, and its text as soon as somebody asked for it."""

    __slots__ = ("_text", "object")

    def __init__(self, obj: Object) -> None:
        """No text yet."""
        self.object = obj
        self._text: str | None = None

    @property
    def text(self) -> str:
        """The object as JSON."""
        if self._text is None:
            self._text = _JSON(self.object)
        return self._text


class MemoryCluster:
    """Objects by kind, namespace and name; every change is kept in the history and told to listeners."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        """A cluster without nodes and namespaces."""
        self.clock = clock or VirtualClock()
        self.kinds: dict[str, Kind] = {kind.plural: kind for kind in KINDS}
        self.version = 100
        self.history: list[Change] = []
        self.listeners: list[Listener] = []
        self.denials: list[Denial] = []
        self.barriers: list[Barrier] = []
        # What it answers to somebody who asks what they may do; what it lets them do is told by the denials alone.
        self.reviewer: t.Callable[[str, Object], bool] = lambda _user, _asked: True
        self.date_offset = 0.0
        # Major and minor; one that does not tell its version does not do what only later ones do.
        self.server_version: tuple[int, int] | None = None
        self.dependents: dict[str, set[Key]] = {}
        self.living: dict[str, Key] = {}
        self._tables: dict[str, dict[tuple[str, str], _Stored]] = {plural: {} for plural in self.kinds}
        self._uids = 0
        self._pages: dict[str, list[str]] = {}
        self._tokens = 0
        self._served: dict[str, tuple[Kind, str, str, str]] = {}
        self._shown: tuple[int, str] = (-1, "")
        # What each field manager applied last, by the uid of the object.
        self._applied: dict[tuple[str, str], Object] = {}

    # What tests and controllers use: the same rules, without a request.

    def serve(self, kind: Kind) -> None:
        """Have the server know one more kind."""
        self.kinds[kind.plural] = kind
        self._tables.setdefault(kind.plural, {})

    def serve_wrappers(self, *, ours: bool = True) -> None:
        """Have the server know AppWrappers, installed by this collection or by somebody else."""
        self.serve(WRAPPERS)
        labels = {"muster.kube/managed": "true"} if ours else {}
        crd = {"metadata": {"name": "appwrappers.workload.codeflare.dev", "labels": labels}}
        self.add("customresourcedefinitions", crd)

    def add(self, plural: str, obj: t.Mapping[str, t.Any]) -> Object:
        """Create an object; Refused as the server would answer."""
        return self._create(self.kinds[plural], json.loads(_JSON(obj)), dry=False)

    def get(self, plural: str, namespace: str, name: str) -> Object | None:
        """The object as it is now; not to be changed."""
        found = self._tables[plural].get((namespace, name))
        return None if found is None else found.object

    def all(self, plural: str, namespace: str | None = None) -> list[Object]:
        """The objects of a kind by namespace and name; not to be changed."""
        table = self._tables[plural]
        return [table[place].object for place in sorted(table) if namespace is None or place[0] == namespace]

    def change(self, plural: str, namespace: str, name: str, edit: t.Callable[[Object], None]) -> Object | None:
        """Edit an object, whoever wrote it last; None when there is none."""
        found = self.get(plural, namespace, name)
        if found is None:
            return None
        copy = json.loads(_JSON(found))
        edit(copy)
        return self._write(self.kinds[plural], copy, found)

    def remove(self, plural: str, namespace: str, name: str, policy: str = "Background") -> None:
        """Ask for the deletion of an object, if there is one."""
        found = self.get(plural, namespace, name)
        if found is not None:
            self._delete(self.kinds[plural], found, {"propagationPolicy": policy})

    def erase(self, key: Key) -> None:
        """Take an object out of the store."""
        found = self._tables[key[0]].pop((key[1], key[2]), None)
        if found is None:
            return
        uid = found.object["metadata"]["uid"]
        self.living.pop(uid, None)
        for owner in owners_of(found.object):
            self.dependents.get(owner["uid"], set()).discard(key)
        self.version += 1
        self._tell(Change(self.version, key[0], True, found.object, found.object))

    def time_text(self, offset: float = 0.0) -> str:
        """The server's time, whole seconds as objects carry it."""
        moment = BEGINNING + datetime.timedelta(seconds=int(self.clock.now + offset))
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def date(self, offset: float = 0.0) -> str:
        """The server's time as answers carry it, or as one that is wrong by so many seconds carries it."""
        second = int(self.clock.now + self.date_offset + offset)
        if self._shown[0] != second:
            moment = BEGINNING + datetime.timedelta(seconds=second)
            self._shown = second, email.utils.format_datetime(moment, usegmt=True)
        return self._shown[1]

    # One request.

    def answer(self, method: str, url: str, body: t.Any, user: str = ADMIN, content_type: str = "") -> tuple[int, str]:
        """Status and body of the answer to a request that has arrived."""
        address = urlsplit(url)
        query = {name: values[-1] for name, values in parse_qs(address.query).items()} if address.query else {}
        if (method, address.path) == ("POST", _OWN_RIGHTS):
            return 201, _JSON({**body, "status": {"allowed": self.reviewer(user, body["spec"])}})
        try:
            request = self._understand(method, address.path, query, body, user, content_type)
            if isinstance(request, str):
                return 200, request
            self._authorize(request)
            return self._act(request)
        except Refused as refused:
            return refused.status, refused.text

    def _understand(
        self, method: str, path: str, query: t.Mapping[str, str], body: t.Any, user: str, content_type: str
    ) -> Request | str:
        """The request of a path, or at once the answer to a question about what is served."""
        if path == "/version" and self.server_version is not None:
            major, minor = map(str, self.server_version)
            return _JSON({"major": major, "minor": minor, "gitVersion": f"v{major}.{minor}.0"})
        if path not in self._served:
            found = self._find(path)
            if isinstance(found, str):
                return found
            self._served[path] = found
        return Request(method, path, query, body, user, *self._served[path], content_type)

    def _find(self, path: str) -> tuple[Kind, str, str, str] | str:
        """Kind, namespace, name and subresource of a path, or the description of a group."""
        match = _PATH.fullmatch(path)
        if match is None:
            return self._group(path)
        api_version = match["core"] or match["group"]
        kinds = {kind.plural: kind for kind in self.kinds.values() if kind.api_version == api_version}
        if not kinds:
            raise _no_page()
        if match["rest"] is None:
            return _JSON(_discovery(api_version, kinds.values()))
        parts = [unquote(part) for part in match["rest"].split("/")]
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
            namespace, parts = parts[1], parts[2:]
        kind = kinds.get(parts[0])
        if kind is None or (namespace and not kind.namespaced):
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        name, subresource = (*parts[1:], "", "")[:2]
        return kind, namespace, name, subresource

    def _group(self, path: str) -> str:
        """The versions of a group, or of all groups."""
        group = path.removeprefix("/apis/")
        served = {kind.api_version for kind in self.kinds.values() if "/" in kind.api_version}
        if path == "/apis":
            groups = [{"versions": [{"groupVersion": version}]} for version in sorted(served)]
            return _JSON({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        versions = sorted(version for version in served if version.startswith(f"{group}/"))
        if not versions or not path.startswith("/apis/") or "/" in group:
            raise _no_page()
        listed = [{"groupVersion": item, "version": item.partition("/")[2]} for item in versions]
        return _JSON({"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": listed})

    def _authorize(self, request: Request) -> None:
        """Refuse what somebody may not do, in the words of the server."""
        if not any(denial.speaks_of(request) for denial in self.denials):
            return
        kind = request.kind
        where = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
        group = kind.api_version.rpartition("/")[0]
        named = f' "{request.name}"' if request.name else ""
        raise Refused(
            403,
            "Forbidden",
            f'{kind.resource}{named} is forbidden: User "{request.user}" cannot {request.verb} resource '
            f'"{kind.plural}" in API group "{group}" {where}',
            kind=kind.plural,
            group=group,
        )

    def _admit(self, request: Request) -> None:
        """Refuse what quotas and webhooks do not let pass now, in the words of the server."""
        barriers = self.barriers if request.method != "DELETE" else [item for item in self.barriers if item.deletions]
        barrier = next((item for item in barriers if item.stops(request, self.clock.now)), None)
        if barrier is None:
            return
        if barrier.cause == "quota":
            text = (
                f"{request.kind.resource} is forbidden: exceeded quota: small, requested: count/{request.kind.plural}=1"
            )
            raise Refused(403, "Forbidden", text, kind=request.kind.plural)
        if barrier.cause == "denied":
            raise Refused(403, "Forbidden", 'admission webhook "hook.example.com" denied the request: not here')
        if barrier.cause == "invalid":
            raise _invalid(request.kind.name, "drawn", "Invalid", "spec.template: Invalid value: drawn by the test")
        if barrier.cause == "no_dry_run":
            text = 'admission webhook "hook.example.com" does not support dry run'
            raise Refused(400, "BadRequest", text)
        raise Refused(500, "InternalError", 'Internal error occurred: failed calling webhook "hook.example.com"')

    def _act(self, request: Request) -> tuple[int, str]:
        """Carry a request out."""
        kind, method = request.kind, request.method
        if method == "GET":
            return 200, self._list(request) if not request.name else self._require(request).text
        if method == "POST":
            if request.name:
                raise Refused(405, "MethodNotAllowed", "the server does not allow this method here")
            body = _complete(request)
            self._admit(request)
            return 201, _JSON(self._create(kind, body, dry=request.dry))
        if method == "PUT":
            return self._put(request)
        if request.content_type == APPLY:
            return self._apply(request)
        found = self._require(request).object
        if method == "PATCH":
            merged = merge(json.loads(_JSON(found)), request.body or {})
            return 200, _JSON(self._replace(request, merged, found))
        self._admit(request)
        answer = self._delete(kind, found, request.body or {}, dry=request.dry)
        return 200, _JSON(answer)

    def _require(self, request: Request) -> _Stored:
        """The object a request is about."""
        found = self._tables[request.kind.plural].get((request.namespace, request.name))
        if found is None:
            raise _missing(request.kind, request.name)
        return found

    def _list(self, request: Request) -> str:
        """A page of a collection as it was when its first page was asked for."""
        kind, query = request.kind, request.query
        token, limit = query.get("continue"), int(query.get("limit") or 0)
        if token:
            if token not in self._pages:
                raise Refused(410, "Expired", "The provided continue parameter is too old")
            version, texts = token.partition("/")[0], self._pages.pop(token)
        else:
            version, texts = str(self.version), self._selected(request)
        metadata: Object = {"resourceVersion": version}
        if limit and len(texts) > limit:
            self._tokens += 1
            metadata["continue"] = f"{version}/{self._tokens}"
            self._pages[metadata["continue"]] = texts[limit:]
            texts = texts[:limit]
        head = _JSON({"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata})
        return f'{head[:-1]},"items":[{",".join(texts)}]}}'

    def _selected(self, request: Request) -> list[str]:
        """The objects that selectors and namespace leave."""
        kind, table = request.kind, self._tables[request.kind.plural]
        try:
            by_label = label_selector(request.query.get("labelSelector", ""))
            by_field = field_selector(request.query.get("fieldSelector", ""), kind.fields)
        except ValueError as error:
            raise Refused(400, "BadRequest", str(error)) from error
        return [
            table[place].text
            for place in sorted(table)
            if (not request.namespace or place[0] == request.namespace)
            and by_label(table[place].object["metadata"].get("labels") or {})
            and by_field(table[place].object)
        ]

    # Changing objects.

    def _create(self, kind: Kind, body: Object, *, dry: bool) -> Object:
        """A new object, unless its name is taken or its namespace gone or going."""
        metadata = body.setdefault("metadata", {})
        if metadata.get("resourceVersion"):
            raise Refused(500, "", "resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self._uids + 1:05d}"
        namespace, name = metadata.get("namespace", "") if kind.namespaced else "", metadata.get("name") or ""
        if kind.namespaced:
            self._require_namespace(kind, namespace, name)
        if not name:
            raise _invalid(
                kind.name, name, "Required", "metadata.name: Required value: name or generateName is required"
            )
        if (namespace, name) in self._tables[kind.plural]:
            raise Refused(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', **_details(kind, name))
        self._uids += 1
        metadata["uid"] = f"{self._uids:08x}-0000-4000-8000-{self._uids:012x}"
        metadata["creationTimestamp"] = self.time_text()
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(field, None)
        body.setdefault("apiVersion", kind.api_version)
        body.setdefault("kind", kind.name)
        if kind.plural == "namespaces":
            body["status"] = {"phase": "Active"}
        elif kind.plural == "pods":
            body["status"] = {"phase": "Pending"}
        elif kind.plural == "jobs":
            body["status"] = {}
        return body if dry else self._write(kind, body, None)

    def _require_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        """Nothing new in a namespace that is not there, or not for long."""
        found = self.get("namespaces", "", namespace)
        if found is None:
            raise _missing(self.kinds["namespaces"], namespace)
        if found["metadata"].get("deletionTimestamp"):
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            message = f'{kind.resource} "{name}" is forbidden: {text}'
            raise Refused(403, "Forbidden", message, **_details(kind, name), causes=[cause])

    def _put(self, request: Request) -> tuple[int, str]:
        """Replace an object by a whole new one."""
        body = _complete(request)
        found = self._tables[request.kind.plural].get((request.namespace, request.name))
        if found is not None:
            return 200, _JSON(self._replace(request, body, found.object))
        if not request.kind.created_by_put:
            raise _missing(request.kind, request.name)
        if body["metadata"].get("uid"):
            raise _conflict(request.kind, request.name, _precondition(body["metadata"]["uid"], ""))
        body["metadata"].pop("resourceVersion", None)
        return 201, _JSON(self._create(request.kind, body, dry=request.dry))

    def _apply(self, request: Request) -> tuple[int, str]:
        """A server-side apply by force; what its manager has applied before and does not any more goes."""
        body = _complete(request)
        if not body.get("kind") or not body.get("apiVersion"):
            raise Refused(400, "BadRequest", "Object 'Kind' is missing")
        manager = request.query.get("fieldManager") or ""
        found = self._tables[request.kind.plural].get((request.namespace, request.name))
        if found is None:
            self._admit(request)
            made = self._create(request.kind, json.loads(_JSON(body)), dry=request.dry)
        else:
            uid = found.object["metadata"]["uid"]
            dropped = _dropped(self._applied.get((uid, manager)) or {}, body)
            merged = merge(merge(json.loads(_JSON(found.object)), dropped), json.loads(_JSON(body)))
            merged["metadata"].pop("resourceVersion", None)
            versioned = {**merged["metadata"], "resourceVersion": found.object["metadata"]["resourceVersion"]}
            made = self._replace(request, {**merged, "metadata": versioned}, found.object)
        if not request.dry:
            self._applied[made["metadata"]["uid"], manager] = body
            made = self._note_manager(request.kind, made, manager)
        return 201 if found is None else 200, _JSON(made)

    def _note_manager(self, kind: Kind, made: Object, manager: str) -> Object:
        """Who has applied an object is told with it."""
        note = {"manager": manager, "operation": "Apply", "apiVersion": kind.api_version}
        notes = made["metadata"].get("managedFields") or []
        if note in notes:
            return made
        noted = {**made, "metadata": {**made["metadata"], "managedFields": [*notes, note]}}
        if key_of(kind.plural, made)[1:] in self._tables[kind.plural]:
            self._tables[kind.plural][key_of(kind.plural, made)[1:]] = _Stored(noted)
        return noted

    def _replace(self, request: Request, body: Object, found: Object) -> Object:
        """What an object becomes by a PUT or PATCH; uid and version must be those it has."""
        kind, name = request.kind, request.name
        wanted, has = body["metadata"], found["metadata"]
        if wanted.get("uid") not in (None, has["uid"]):
            raise _conflict(kind, name, _precondition(wanted["uid"], has["uid"]))
        if not wanted.get("resourceVersion"):
            if kind.needs_version:
                cause = "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"
                raise _invalid(kind.plural, name, "Invalid", cause)
        elif wanted["resourceVersion"] != has["resourceVersion"]:
            text = "the object has been modified; please apply your changes to the latest version and try again"
            raise _conflict(kind, name, text)
        if found.get("immutable") and any(found.get(field) != body.get(field) for field in ("data", "immutable")):
            cause = "data: Forbidden: field is immutable when `immutable` is set"
            raise _invalid(kind.name, name, "Forbidden", cause)
        if kind.plural == "jobs" and request.subresource != "status":
            self._require_job_change(name, body, found)
        if request.subresource == "status":
            body = {**found, "status": body.get("status")}
        elif kind.has_status:
            body = {**body, "status": found["status"]} if "status" in found else {**body}
            if "status" not in found:
                body.pop("status", None)
        body = {**body, "metadata": _kept(body["metadata"], has)}
        return body if request.dry else self._write(kind, body, found)

    def _require_job_change(self, name: str, body: Object, found: Object) -> None:
        """Of a Job parallelism and suspension may change, and little else."""
        new, old = body["spec"], found["spec"]
        follows = new.get("completionMode") == "Indexed" and new.get("completions") == new.get("parallelism")
        if new.get("completions") != old.get("completions") and not follows:
            raise _invalid("Job.batch", name, "Invalid", "spec.completions: Invalid value: field is immutable")
        template, before = new["template"], old["template"]
        told = (found.get("status") or {}).get("conditions") or ()
        condition = any((item["type"], item["status"]) == ("Suspended", "True") for item in told)
        stopped = old.get("suspend") and condition and not found["status"].get("active")
        if stopped and self.server_version is not None and self.server_version >= (1, 36):
            template, before = map(_without_resources, (template, before))
        if template != before:
            raise _invalid("Job.batch", name, "Invalid", "spec.template: Invalid value: field is immutable")

    def _delete(self, kind: Kind, found: Object, options: Object, *, dry: bool = False) -> Object:
        """Delete an object, or begin to: finalizers, running pods and full namespaces take their time."""
        metadata = found["metadata"]
        for field, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            wanted = (options.get("preconditions") or {}).get(field)
            if wanted not in (None, metadata[field]):
                cause = _precondition(wanted, metadata[field], word)
                raise _conflict(kind, metadata["name"], cause, about=kind.name)
        if dry:
            return _success(kind, metadata)
        extra = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(options.get("propagationPolicy") or "")
        finalizers = [*(metadata.get("finalizers") or ())]
        if extra is not None and extra not in finalizers:
            finalizers.append(extra)
        key = key_of(kind.plural, found)
        lingers = kind.plural == "namespaces" or (kind.plural == "pods" and found["spec"].get("nodeName"))
        if not finalizers and not lingers:
            self.erase(key)
            return _success(kind, metadata)
        if metadata.get("deletionTimestamp"):
            return found
        going = {**found, "metadata": {**metadata, "deletionTimestamp": self.time_text()}}
        if finalizers:
            going["metadata"]["finalizers"] = finalizers
        if kind.plural == "namespaces":
            going["status"] = {"phase": "Terminating"}
        return self._write(kind, going, found)

    def _write(self, kind: Kind, body: Object, before: Object | None) -> Object:
        """Store an object, unless it says what is stored already; one whose last finalizer went is gone."""
        metadata = body["metadata"]
        if before is not None and body == before:
            return before
        key = key_of(kind.plural, body)
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        for owner in owners_of(before) if before is not None else ():
            self.dependents.get(owner["uid"], set()).discard(key)
        for owner in owners_of(body):
            self.dependents.setdefault(owner["uid"], set()).add(key)
        self.living[metadata["uid"]] = key
        self._tables[kind.plural][key[1], key[2]] = _Stored(body)
        self._tell(Change(self.version, kind.plural, False, body, before))
        released = before is not None and before["metadata"].get("finalizers") and not metadata.get("finalizers")
        bound = kind.plural == "pods" and body["spec"].get("nodeName")
        if metadata.get("deletionTimestamp") and released and kind.plural != "namespaces" and not bound:
            self.erase(key)
        return body

    def _tell(self, change: Change) -> None:
        """Note a change and let controllers know."""
        self.history.append(change)
        for listener in self.listeners:
            listener(change)


def key_of(plural: str, obj: Object) -> Key:
    """Where an object lies."""
    return plural, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def owners_of(obj: t.Mapping[str, t.Any]) -> t.Sequence[Object]:
    """The owner references of an object."""
    return obj["metadata"].get("ownerReferences") or ()


def _complete(request: Request) -> Object:
    """The object a request brings, in the place that its path names."""
    body = request.body
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
        raise Refused(400, "BadRequest", "the object provided is unrecognized")
    metadata = body["metadata"]
    metadata.pop("managedFields", None)
    for field, place in (("namespace", request.namespace), ("name", request.name)):
        given = metadata.get(field)
        if place and given not in (None, "", place):
            text = f"the {field} of the provided object does not match the {field} sent on the request"
            raise Refused(400, "BadRequest", text)
        if place:
            metadata[field] = place
    return body


def _kept(metadata: Object, has: Object) -> Object:
    """Metadata as it will be stored: what belongs to the server stays as it is."""
    merged = {**metadata, "resourceVersion": has["resourceVersion"]}
    for field in _SERVER_FIELDS:
        if field in has:
            merged[field] = has[field]
        else:
            merged.pop(field, None)
    return merged


def merge(target: Object, patch: t.Mapping[str, t.Any]) -> Object:
    """A JSON merge patch."""
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict):
            inner = target.get(name)
            target[name] = merge(inner if isinstance(inner, dict) else {}, value)
        else:
            target[name] = value
    return target


def _dropped(before: Object, after: Object) -> Object:
    """A merge patch that takes away what an object had and has no more."""
    gone: Object = {}
    for name, value in before.items():
        if name not in after:
            gone[name] = None
        elif isinstance(value, dict) and isinstance(after[name], dict):
            gone[name] = _dropped(value, after[name])
    return gone


def _without_resources(template: Object) -> Object:
    """A pod template without what its containers ask for."""
    copy = json.loads(_JSON(template))
    for container in copy["spec"]["containers"]:
        container.pop("resources", None)
    return copy


def _details(kind: Kind, name: str) -> Object:
    """Whom an error is about."""
    group = kind.api_version.rpartition("/")[0]
    return {"name": name, "kind": kind.plural, **({"group": group} if group else {})}


def _no_page() -> Refused:
    """Nothing is served there; the server says so in plain words."""
    refused = Refused(404, "", "")
    refused.text = "404 page not found"
    return refused


def _missing(kind: Kind, name: str) -> Refused:
    """There is no such object."""
    return Refused(404, "NotFound", f'{kind.resource} "{name}" not found', **_details(kind, name))


def _conflict(kind: Kind, name: str, cause: str, about: str | None = None) -> Refused:
    """The object is not what it was thought to be."""
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {cause}'
    return Refused(409, "Conflict", message, **{**_details(kind, name), **({"kind": about} if about else {})})


def _invalid(about: str, name: str, why: str, cause: str) -> Refused:
    """The object is not as it must be."""
    causes = [{"reason": f"FieldValue{why}", "message": cause, "field": cause.partition(":")[0]}]
    return Refused(422, "Invalid", f'{about} "{name}" is invalid: {cause}', name=name, kind=about, causes=causes)


def _success(kind: Kind, metadata: Object) -> Object:
    """The answer to a deletion that is done."""
    details = {**_details(kind, metadata["name"]), "uid": metadata["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _precondition(wanted: str, has: str, word: str = "UID") -> str:
    """Which precondition failed."""
    return f"Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {has}"


def _discovery(api_version: str, kinds: t.Iterable[Kind]) -> Object:
    """The resources of one group version."""
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    entries: list[Object] = []
    for kind in kinds:
        entry = {"name": kind.plural, "singularName": kind.name.lower(), "namespaced": kind.namespaced}
        entries.append({**entry, "kind": kind.name, "verbs": verbs})
        if kind.has_status:
            entries.append({**entry, "name": f"{kind.plural}/status", "kind": kind.name, "verbs": ["get", "update"]})
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": entries}
