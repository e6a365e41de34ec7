# Copyright (c) 2026, The muster.kube authors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/license/bsd-2-clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Tells the dispatcher of muster.kube how far a training is, and the training when it should save.

For pods of an elastic gang; Python 3.8 or later and nothing else. Only the process of rank 0 reports. Whatever goes
wrong with a report, the training goes on: it is said once on standard error, and tried again later.

    import muster_trainer

    for step in range(first, last):
        train(step)
        if muster_trainer.report(step, total=last):
            save(step)
            muster_trainer.saved(step)
    muster_trainer.completed()

With the Hugging Face Trainer: Trainer(..., callbacks=[muster_trainer.MusterCallback()]).

A checkpoint that was asked for is where the training goes on with another size, so saved waits a while for the pod's
end: steps done meanwhile would be done twice.

MUSTER_GANG            name of the gang; without it nothing is reported
MUSTER_NAMESPACE       its namespace, by default that of the pod
MUSTER_REPORT_SECONDS  how often a step is reported at most, 30 by default
MUSTER_PAUSE_SECONDS   how long saved waits at most for the pod's end, 30 by default; 0 to go on at once
MUSTER_API             address of the API server, or of the HTTP service; by default the one that pods are told.
                       It begins with https, but for a proxy in the same pod
MUSTER_TOKEN_FILE      token of the account, by default that of the pod
MUSTER_CA_FILE         certificate of that server, by default the one that pods are given
RANK                   only rank 0 reports

The account needs the rights to get and patch the ConfigMap muster-progress-GANG; through the service it needs none.
"""

from __future__ import annotations

import email.utils
import hashlib
import http.client
import json
import os
import ssl
import sys
import time
import urllib.parse

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_PREFIX = "muster-progress-"
_LONGEST_NAME = 253
# How long a request may take: the training waits for it.
_PATIENCE = 3.0
# After a report that failed the next one waits longer each time, at most so many seconds.
_LONGEST_PAUSE = 600.0
_LONGEST_ANSWER = 4 * 1024 * 1024
_THIS_POD = ("localhost", "127.0.0.1", "::1")
# Moments and steps are less.
_TOO_MUCH = 2**53
# While a training waits for the end of its pod it asks so often whether that is still to come.
_LOOK = 1.0


class Reporter:
    """One training's way to its dispatcher."""

    def __init__(self, environment=None):
        """Read where to report from the environment; nothing is sent yet."""
        given = os.environ if environment is None else environment
        self._environment = given
        self._gang = given.get("MUSTER_GANG", "")
        self._first = given.get("RANK", "0") == "0"
        self._every = _number(given.get("MUSTER_REPORT_SECONDS"), 30.0)
        self._pause = _number(given.get("MUSTER_PAUSE_SECONDS"), 30.0)
        self._step = self._total = self._checkpoint = None
        self._completed = False
        # What the server's clock is ahead of the steady one here.
        self._offset = None
        self._asked = None
        # The question that the last checkpoint answers.
        self._answered = None
        self._last_sent = None
        self._not_before = 0.0
        self._failures = 0
        self._said = set()

    @property
    def active(self):
        """Whether this process reports anything at all."""
        return bool(self._gang) and self._first

    def report(self, step, total=None):
        """Tell the step that is done, if it is time to; True when the training should save now."""
        self._step, self._completed = int(step), False
        self._total = self._total if total is None else int(total)
        now = time.monotonic()
        if self._last_sent is None or now - self._last_sent >= self._every:
            self._send(now)
        return self.save_now

    def saved(self, step):
        """Tell that a step is durably stored; call it only after the checkpoint was written, and on rank 0.

        If it was asked for, this returns when the change of size is off, or MUSTER_PAUSE_SECONDS later.
        """
        if not self._reach():
            return
        self._step = max(int(step), -1 if self._step is None else self._step)
        self._checkpoint = {"step": int(step), "time": self._now()}
        before = self._answered
        # The answer may hold a question. Nothing was done since the checkpoint, so it is an answer to that too.
        for _turn in range(3):
            self._answered = self._asked
            if not self._send(time.monotonic(), urgent=True):
                return
            if self._asked == self._answered:
                break
        if self._answered != before:
            self._wait_for_the_end()

    def completed(self):
        """Tell that the training is done."""
        if self._step is not None:
            self._completed = True
            self._send(time.monotonic(), urgent=True)

    @property
    def save_now(self):
        """Whether a checkpoint is asked for that has not come yet."""
        if not self.active or self._asked is None or self._asked == self._answered:
            return False
        return self._checkpoint is None or self._checkpoint["time"] <= self._asked

    # How it is told.

    def _reach(self):
        """Whether the server was asked once: its clock counts, and what an earlier process has told."""
        if not self.active:
            return False
        if self._offset is None:
            found = self._try("GET", None)
            if found is None:
                return False
            earlier = _object(_data(found).get("report.json")).get("checkpoint")
            if isinstance(earlier, dict) and _is_number(earlier.get("time")) and _is_number(earlier.get("step")):
                self._checkpoint = self._checkpoint or {"step": int(earlier["step"]), "time": earlier["time"]}
                self._answered = earlier.get("asked")
            if not self.save_now:
                # An earlier process was asked, and this one came of it.
                self._answered = self._asked
        return True

    def _wait_for_the_end(self):
        """After a checkpoint that was asked for, until that is taken back or asked anew."""
        end = time.monotonic() + self._pause
        while self._asked is not None and self._asked == self._answered and time.monotonic() < end:
            time.sleep(min(_LOOK, self._pause))
            if self._try("GET", None) is None:
                return

    def _send(self, now, urgent=False):
        """One report, unless the last ones failed a moment ago; whether it arrived."""
        if not self.active or (now < self._not_before and not urgent):
            return False
        self._last_sent = now
        if not self._reach():
            return False
        told = {"format": 1, "time": self._now(), "step": self._step, "completed": self._completed}
        if self._total is not None:
            told["total"] = max(self._total, self._step)
        if self._checkpoint is not None:
            answers = {} if self._answered is None else {"asked": self._answered}
            told["checkpoint"] = {**self._checkpoint, **answers}
        return self._try("PATCH", {"data": {"report.json": json.dumps(told)}}) is not None

    def _try(self, method, body):
        """The ConfigMap as the server answers it; None when that failed, which is no reason to stop a training."""
        try:
            found = self._ask(method, body)
        except Exception as error:  # noqa: BLE001 - a training must not end for this
            self._failures += 1
            pause = min(_LONGEST_PAUSE, self._every * 2 ** min(self._failures - 1, 10))
            self._not_before = time.monotonic() + pause
            self._say(f"the progress of gang {self._gang} cannot be reported: {type(error).__name__}: {error}")
            return None
        self._failures, self._not_before = 0, 0.0
        asked = _object(_data(found).get("asked.json")).get("save_after")
        self._asked = float(asked) if _is_number(asked) else None
        return found

    def _ask(self, method, body):
        """One request; raises whatever goes wrong."""
        path = "/api/v1/namespaces/{}/configmaps/{}".format(
            urllib.parse.quote(self._namespace(), safe=""), urllib.parse.quote(progress_name(self._gang), safe="")
        )
        # Tokens of pods are renewed now and then.
        headers = {"Authorization": "Bearer " + self._token(), "Accept": "application/json"}
        text = None
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json"
            text = json.dumps(body).encode()
        connection = self._connection()
        try:
            connection.request(method, path, body=text, headers=headers)
            answer = connection.getresponse()
            content = answer.read(_LONGEST_ANSWER + 1)
            self._read_clock(answer.getheader("Date"))
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: HTTP {answer.status} {answer.reason}")
        found = json.loads(content)
        if not isinstance(found, dict):
            raise ValueError("the answer is no object")
        return found

    def _connection(self):
        """A connection to the API server."""
        host, port = self._environment.get("KUBERNETES_SERVICE_HOST"), self._environment.get("KUBERNETES_SERVICE_PORT")
        if host and ":" in host:
            host = f"[{host}]"
        address = self._environment.get("MUSTER_API") or (f"https://{host}:{port or 443}" if host else None)
        if not address:
            raise RuntimeError("KUBERNETES_SERVICE_HOST is not set; this is no pod")
        parts = urllib.parse.urlsplit(address)
        if parts.scheme == "http" and parts.hostname in _THIS_POD:
            return http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=_PATIENCE)
        if parts.scheme != "https":
            raise RuntimeError("MUSTER_API does not begin with https://, so anybody could read the token on its way")
        trusted = ssl.create_default_context(cafile=self._environment.get("MUSTER_CA_FILE", _ACCOUNT + "/ca.crt"))
        return http.client.HTTPSConnection(parts.hostname, parts.port or 443, timeout=_PATIENCE, context=trusted)

    def _token(self):
        return _text(self._environment.get("MUSTER_TOKEN_FILE", _ACCOUNT + "/token"))

    def _namespace(self):
        return self._environment.get("MUSTER_NAMESPACE") or _text(_ACCOUNT + "/namespace")

    def _read_clock(self, date):
        """Remember what time it is for the server: clocks of nodes are off."""
        told = email.utils.parsedate_to_datetime(date) if date else None
        if told is not None:
            self._offset = told.timestamp() - time.monotonic()

    def _now(self):
        """The server's time."""
        return round(time.time() if self._offset is None else time.monotonic() + self._offset, 3)

    def _say(self, words):
        if words not in self._said and len(self._said) < 20:
            self._said.add(words)
            print(f"muster_trainer: {words}", file=sys.stderr, flush=True)


class MusterCallback:
    """A callback for the Hugging Face Trainer: reports steps and checkpoints, and saves when it is asked to.

    All processes have to save at the same step. So every few steps rank 0 tells the others whether to, by
    torch.distributed where it is in use; agree may be another way: a function of rank 0's answer that gives the same
    value in all processes. every has to be the same in all of them.
    """

    def __init__(self, reporter=None, every=10, agree=None):
        """Report by the environment's settings unless told otherwise."""
        self._reporter = _reporter() if reporter is None else reporter
        self._every = max(1, int(every))
        self._agree = _agreed_by_torch if agree is None else agree

    def on_step_end(self, args, state, control, **_more):
        """Report the step, and have it saved where that is asked for."""
        asked = False
        if getattr(state, "is_world_process_zero", True):
            total = getattr(state, "max_steps", None)
            asked = self._reporter.report(state.global_step, total if total and total > 0 else None)
        if state.global_step % self._every == 0 and self._agree(asked):
            control.should_save = True
        return control

    def on_save(self, args, state, control, **_more):
        """The Trainer has written a checkpoint."""
        if getattr(state, "is_world_process_zero", True):
            self._reporter.saved(state.global_step)
        return control

    def on_train_end(self, args, state, control, **_more):
        """The Trainer is done."""
        if getattr(state, "is_world_process_zero", True):
            self._reporter.completed()
        return control

    def __getattr__(self, name):
        """Trainers of all versions call more events than these; nothing is done at them."""
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda args, state, control, **_more: control


def progress_name(gang):
    """The name of the ConfigMap with a gang's progress."""
    name = _PREFIX + gang
    return name if len(name) <= _LONGEST_NAME else _PREFIX + hashlib.sha256(gang.encode()).hexdigest()


def report(step, total=None):
    """Tell the step that is done; True when the training should save now."""
    return _reporter().report(step, total)


def saved(step):
    """Tell that a step is durably stored."""
    _reporter().saved(step)


def completed():
    """Tell that the training is done."""
    _reporter().completed()


_made = []


def _reporter():
    """The one that functions of this file use."""
    if not _made:
        _made.append(Reporter())
    return _made[0]


def _agreed_by_torch(asked):
    """What rank 0 says, in all processes of a training that torch distributes."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return asked
    told = [asked]
    distributed.broadcast_object_list(told, src=0)
    return bool(told[0])


def _text(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read().strip()


def _data(found):
    data = found.get("data")
    return data if isinstance(data, dict) else {}


def _object(text):
    """The JSON object in a text that anybody may have written; empty for anything else."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_number(value):
    """Whether it is a number that a moment or a step can be; JSON has larger ones, and Python reads NaN in it."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _TOO_MUCH


def _number(text, default):
    try:
        found = float(text)
    except (TypeError, ValueError):
        return default
    return found if found >= 0 else default
