# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Frames: any result survives, any damage is noticed."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import NO_FRAME, Frame, read_frames
from ansible_collections.muster.kube.tests.support.frames import framed, write_frame
from hypothesis import assume, given
from hypothesis import strategies as st

payloads = st.dictionaries(
    st.text(max_size=5),
    st.text(max_size=40) | st.integers(-(2**60), 2**60) | st.lists(st.none(), max_size=3),
    max_size=3,
)


@given(payload=payloads, noise=st.binary(max_size=300), after=st.sampled_from([b"", b"\n", b"late words\n"]))
def test_any_payload_survives_between_any_noise(payload, noise, after):
    assert read_frames(noise + framed(payload) + after) == Frame(payload)


@given(payload=payloads, share=st.floats(0, 1, exclude_max=True))
def test_any_cut_is_noticed(payload, share):
    whole = framed(payload)
    cut = read_frames(whole[: int(len(whole) * share)])
    assert cut.payload is None
    assert cut.problem


@given(payload=payloads, place=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255))
def test_a_changed_byte_never_gives_another_payload(payload, place, value):
    whole = bytearray(framed(payload))
    position = int(len(whole) * place)
    assume(whole[position] != value)
    whole[position] = value
    found = read_frames(bytes(whole))
    assert (found.payload is None and found.problem) or found == Frame(payload)


@given(payload=payloads, place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_of_the_content_is_noticed(payload, place, bit):
    head, body = framed(payload).split(b"\n", 1)
    body, end = body.split(b"\n-----END", 1)
    content = bytearray(base64.b64decode(body))
    content[int(len(content) * place)] ^= 1 << bit
    damaged = read_frames(head + b"\n" + base64.encodebytes(bytes(content)).rstrip() + b"\n-----END" + end)
    assert damaged.payload is None
    assert damaged.problem


@given(payload=payloads, start=st.floats(0, 1, exclude_max=True), length=st.integers(1, 40))
def test_a_missing_piece_is_noticed(payload, start, length):
    whole = framed(payload)
    position = int(len(whole) * start)
    found = read_frames(whole[:position] + whole[position + length :])
    assert (found.payload is None and found.problem) or found == Frame(payload)


@given(first=payloads, second=payloads)
def test_the_last_of_two_frames_wins(first, second):
    assert read_frames(framed(first) + b"words\n" + framed(second)) == Frame(second)


def test_a_damaged_last_frame_is_told_beside_the_one_before():
    found = read_frames(framed({"run": 1}) + framed({"run": 2})[:-5])
    assert found.payload == {"run": 1}
    assert found.problem == "the result in the log is damaged: its end is missing"


def test_a_log_without_a_frame():
    assert read_frames(b"") == Frame(None, NO_FRAME)
    assert read_frames(b"-----BEGIN MUSTER RESULT v1-----\n") == Frame(None, NO_FRAME)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (framed({}).replace(b" v1 ", b" v2 "), "it is of version 2, known is 1"),
        (framed({}).replace(b" 2 ", b" 3 "), "3 bytes were announced, there are 2"),
        (framed([1]), "a mapping is needed"),
        (write_frame(b"{"), "it is no JSON"),
        (write_frame(b'{"a":NaN}'), "NaN is no number"),
        (write_frame(b"[" * 100_000), "it is nested too deeply"),
        (framed({"a": 1}).replace(b"\n-----END", b"\n====\n-----END"), "it is no base64"),
    ],
)
def test_what_is_wrong_is_told(log, words):
    found = read_frames(log)
    assert found.payload is None
    assert words in (found.problem or "")


def test_a_frame_without_checksum_is_taken_when_the_image_has_no_program_for_it():
    head, rest = framed({"a": 1}).split(b"\n", 1)
    assert read_frames(head.rsplit(b" ", 1)[0] + b" ------\n" + rest) == Frame({"a": 1})


def test_bytes_that_are_no_text_do_not_lose_the_result():
    assert read_frames(write_frame(b'{"brand":"\xff"}')) == Frame({"brand": "�"})
