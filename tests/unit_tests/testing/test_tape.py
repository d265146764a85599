"""What a tape lets pass, keeps and plays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from vcr.record_mode import RecordMode
from vcr.request import Request

from langchain_gemini_tools.testing.matching import matchers
from langchain_gemini_tools.testing.tape import Tape

if TYPE_CHECKING:
    from pathlib import Path

RESPONSE: Any = {"status": {"code": 200, "message": "OK"}, "headers": {}, "body": {"string": b"{}"}}
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"


def tape(tmp_path: Path, mode: RecordMode, **settings: Any) -> Tape:
    return Tape(str(tmp_path / "a.yaml"), record_mode=mode, match_on=matchers(), **settings)


@pytest.mark.parametrize(
    "uri",
    [
        "https://oauth2.googleapis.com/token",
        "http://metadata.google.internal/computeMetadata/v1/instance",
        "https://api.smith.langchain.com/runs/multipart",
        "https://traces.example.com/runs/batch",
    ],
)
def test_credentials_and_traces_are_neither_recorded_nor_replayed(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGSMITH_ENDPOINT", "https://traces.example.com/api")
    request = Request("POST", uri, b"assertion", {})
    recording = tape(tmp_path, RecordMode.ALL)
    recording.append(request, RESPONSE)
    assert recording.data == []
    assert not tape(tmp_path, RecordMode.NONE).can_play_response_for(request)  # it goes on its way


def test_what_the_user_leaves_out_is_left_out(tmp_path: Path) -> None:
    def only_posts(request: Any) -> Any:
        return request if request.method == "POST" else None

    recording = tape(tmp_path, RecordMode.ALL, before_record_request=only_posts)
    for method in ("GET", "POST"):
        recording.append(Request(method, GEMINI, b"", {}), RESPONSE)
    assert [request.method for request in recording.requests] == ["POST"]


def test_what_is_played_is_marked_and_what_is_kept_is_not(tmp_path: Path) -> None:
    request = Request("POST", GEMINI, b"{}", {})
    playing = tape(tmp_path, RecordMode.NONE)
    playing.append(request, RESPONSE)
    playing.rewound = True
    assert playing.can_play_response_for(request)
    assert playing.play_response(request) == {**RESPONSE, "headers": {"x-cassette": ["replayed"]}}
    assert playing.responses == [RESPONSE]
