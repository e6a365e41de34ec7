# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How releases stand is read from helm's own Secrets, as far as one may look."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.helm.releases import (
    find_releases,
    forget_revision,
    list_revisions,
    read_whole,
)
from ansible_collections.muster.kube.tests.support.helm_cases import (
    HOME,
    RELEASE,
    release_body,
    release_secret,
    revision,
)

SECRETS = f"/api/v1/namespaces/{HOME}/secrets"
ALL = "/api/v1/secrets"
FIRST = f"{SECRETS}/sh.helm.release.v1.{RELEASE}.v1"


def page(*secrets):
    """An answer to a list."""
    return {"kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": list(secrets)}


def test_revisions_are_listed_in_their_order_without_their_content(stub, client, reply):
    listed = [release_secret({}, number=number) for number in (10, 9, 1)]
    stub.answer("GET", SECRETS, reply(page(*listed)))
    assert [item.revision for item in list_revisions(client, HOME, RELEASE)] == [1, 9, 10]
    [seen] = stub.seen
    assert seen.query["labelSelector"] == f"owner=helm,name={RELEASE}"
    assert "PartialObjectMetadataList" in dict(seen.headers)["Accept"]


def test_a_revision_is_read_whole_and_forgotten_by_its_uid(stub, client, reply, fault):
    stub.answer("GET", FIRST, reply(release_secret(release_body(config={"a": 1}))), fault(404, "NotFound", "gone"))
    assert read_whole(client, revision(1, "deployed")).values == {"a": 1}
    assert read_whole(client, revision(1, "deployed")) is None
    stub.answer("DELETE", FIRST, reply({"kind": "Status"}))
    forget_revision(client, revision(1, "pending-install"))
    assert stub.seen[-1].body["preconditions"] == {"uid": "uid-1"}


def test_the_last_revision_of_each_release_is_found(stub, client, reply):
    damaged = release_secret({}, number=3)
    damaged["data"] = {}
    foreign = {**release_secret({}, number=4), "type": "Opaque"}
    secrets = [release_secret(release_body(), "failed", 2), release_secret(release_body()), damaged, foreign]
    stub.answer("GET", ALL, reply(page(*secrets)))
    found = find_releases(client, HOME)
    assert [(item.chart, item.revision.revision) for item in found.releases] == [("widget", 2)]
    assert found.unseen == ()


def test_who_may_look_into_one_namespace_only_is_told_so(stub, client, reply, fault):
    stub.answer("GET", ALL, fault(403, "Forbidden", "no"))
    stub.answer("GET", SECRETS, reply(page(release_secret(release_body()))), fault(403, "Forbidden", "no"))
    found = find_releases(client, HOME)
    assert (len(found.releases), found.unseen) == (1, (f"secrets outside of {HOME}",))
    stub.answer("GET", ALL, fault(403, "Forbidden", "no"))
    assert find_releases(client, HOME).unseen == ("secrets",)


def test_who_may_not_read_secrets_is_refused(stub, client, fault):
    stub.answer("GET", SECRETS, fault(403, "Forbidden", "no"))
    with pytest.raises(Forbidden):
        list_revisions(client, HOME, RELEASE)
