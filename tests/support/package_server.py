# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages served on this machine's loopback: two Python indexes and a repository of rpm packages."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import pathlib
import subprocess
import threading
import typing as t
import zipfile

from ansible_collections.muster.kube.tests.support.live_cluster import wait_for_end

USER = "me"


class FileServer:
    """A folder served while the with block lasts; what is below a guarded path needs the password."""

    def __init__(self, root: pathlib.Path, guarded: str | None, password: str) -> None:
        """Choose a port; asked collects the paths that were handed out."""
        self.root = root
        self.password = password
        self.asked: list[str] = []
        asked = self.asked
        wanted = "Basic " + base64.b64encode(f"{USER}:{password}".encode()).decode()

        class Handler(http.server.SimpleHTTPRequestHandler):
            """Files, some of them for those who know the password."""

            def do_GET(self) -> None:
                """Answer one request."""
                hidden = guarded is not None and self.path.startswith(guarded)
                if hidden and self.headers.get("Authorization") != wanted:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="packages"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                asked.append(self.path)
                super().do_GET()

            def log_message(self, *words: t.Any) -> None:
                """Say nothing."""

        handler = functools.partial(Handler, directory=str(root))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.address = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> t.Self:
        """Start to serve."""
        self._thread.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        """Stop."""
        self._server.shutdown()
        wait_for_end(self._thread)
        self._server.server_close()


class Indexes(FileServer):
    """Two package indexes below one web server; only requests with the password see what is guarded."""

    def __init__(self, root: pathlib.Path, password: str = "word", guarded: str | None = "/second/") -> None:
        """Make the packages."""
        super().__init__(root, guarded, password)
        self.hashes: dict[str, str] = {}
        self.add("first", "apple", "from the first index")
        self.add("first", "plum", "never installed")
        self.add("second", "pear", "from the second index")
        # Packages of the same names in the other index, which nobody may install.
        self.add("first", "pear", "from the wrong index")
        self.add("second", "apple", "from the wrong index")

    def add(self, index: str, name: str, text: str) -> None:
        """Put a package into an index; the hash of the first of a name is the one that locks have."""
        folder = self.root / index / name
        folder.mkdir(parents=True)
        wheel = folder / f"{name}-1.0-py3-none-any.whl"
        info = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{name}.py", f"TEXT = {text!r}\n")
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        (folder / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>\n')
        self.hashes.setdefault(name, "sha256:" + hashlib.sha256(wheel.read_bytes()).hexdigest())

    def lock(self, second_url: str) -> dict[str, t.Any]:
        """A Pipfile.lock with a package of each index; for the second one it has this URL."""
        sources = [
            {"name": "first", "url": f"http://{self.address}/first/", "verify_ssl": True},
            {"name": "second", "url": second_url, "verify_ssl": True},
        ]
        return {
            "_meta": {"requires": {"python_version": "3"}, "sources": sources},
            "default": {
                "apple": {"version": "==1.0", "hashes": [self.hashes["apple"]], "index": "first"},
                "pear": {
                    "version": "==1.0",
                    "hashes": [self.hashes["pear"]],
                    "index": "second",
                    "markers": "python_version > '3'",
                },
            },
        }


SPEC = """Name: {name}
Version: 1.0
Release: 2
Summary: Made by a test
License: GPL-3.0-or-later
BuildArch: noarch
{requires}
%description
Made by a test.
%install
mkdir -p %{{buildroot}}/usr/share/{name}
printf '%s' '{text}' > %{{buildroot}}/usr/share/{name}/text
%files
/usr/share/{name}
"""


class RpmRepository(FileServer):
    """A repository with two packages, plum-tree and the plum-root it depends on; all of it needs the password."""

    def __init__(self, root: pathlib.Path, work: pathlib.Path, password: str) -> None:
        """Build the packages and the repository's data."""
        super().__init__(root, "/", password)
        for name, requires, text in (
            ("plum-root", "", "the root"),
            ("plum-tree", "Requires: plum-root = 1.0", "the tree"),
        ):
            spec = work / f"{name}.spec"
            spec.write_text(SPEC.format(name=name, requires=requires, text=text), encoding="utf-8")
            places = [f"--define=_topdir {work}", f"--define=_rpmdir {root}", f"--define=_dbpath {work}/db"]
            _run("rpmbuild", "-bb", "--quiet", *places, str(spec))
        _run("createrepo_c", "--quiet", str(root))

    def configuration(self) -> str:
        """Settings of dnf that know this repository and no other."""
        return (
            "[main]\ngpgcheck=0\nreposdir=/nonexistent\n\n"
            f"[plums]\nname=Plums\nbaseurl=http://{self.address}/\nusername={USER}\npassword={self.password}\n"
        )


def _run(*command: str) -> None:
    """A program that must work."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if ended.returncode:
        raise AssertionError(f"{command[0]} failed:\n{ended.stdout}{ended.stderr}")
