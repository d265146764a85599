"""`python -m langchain_gemini_tools.testing audit` finds the problems of cassettes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from langchain_gemini_tools.testing.__main__ import main
from langchain_gemini_tools.testing.files import dump_yaml

if TYPE_CHECKING:
    from pathlib import Path

KEY = "AI" + "za" + "Sy0123456789abcdefghij-KLMNOPQRS_tuv"
URI = "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"


def a_cassette(**changes: Any) -> dict[str, Any]:
    """The data of a cassette with nothing wrong, or with something else instead."""
    request = {
        "method": "POST",
        "uri": URI,
        "headers": {"content-type": "application/json"},
        "body": {"json": {"contents": []}},
    }
    response = {"status": {"code": 200}, "body": {"json": {}}}
    return {
        "recorded_against": changes.get("said", "Gemini Developer API"),
        "interactions": [
            {
                "request": request | changes.get("request", {}),
                "response": response | changes.get("response", {}),
            }
        ],
    }


def audited(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The exit code, and the problems without the folder's name."""
    code = main(["audit", str(folder)])
    lines = capsys.readouterr().out.splitlines()
    return code, [line.removeprefix(f"{folder}/") for line in lines]


def test_a_clean_folder_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.yaml", "b/c.yml"):
        (tmp_path / "b").mkdir(exist_ok=True)
        (tmp_path / name).write_text(dump_yaml(a_cassette()))
    (tmp_path / "notes.txt").write_text(KEY)
    assert audited(tmp_path, capsys) == (0, ["2 cassettes, 0 problems"])


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        pytest.param(
            {"request": {"uri": f"{URI}?key={KEY}"}},
            [
                "interaction 1, request.uri: a Google API key",
                "interaction 1, request: the address contains a credential",
            ],
            id="a key in the address",
        ),
        pytest.param(
            {"request": {"headers": {"X-Goog-Api-Key": "anything"}}},
            ["interaction 1, request: the header 'X-Goog-Api-Key' is not one of content-type"],
            id="a header that is not harmless",
        ),
        pytest.param(
            {"request": {"headers": {"Host": "a", "Accept": "*/*"}}},
            ["interaction 1, request: the headers 'Host', 'Accept' are not one of content-type"],
            id="headers as vcrpy writes them",
        ),
        pytest.param(
            {"response": {"headers": {"set-cookie": "a=b"}}},
            [
                "interaction 1, response: the header 'set-cookie' is not one of content-encoding, "
                "content-type, retry-after, server"
            ],
            id="a cookie",
        ),
        pytest.param(
            {"response": {"body": {"text": f"Your key {KEY} is wrong"}}},
            ["interaction 1, response.body.text: a Google API key"],
            id="a key in an answer",
        ),
        pytest.param(
            {"response": {"body": {"base64": base64.b64encode(KEY.encode()).decode()}}},
            ["interaction 1, response.body.base64: a Google API key (inside base64)"],
            id="a key inside base64",
        ),
        pytest.param(
            {"response": {"body": {"events": [{"text": KEY[:9]}, {"text": KEY[9:]}]}}},
            ["interaction 1, response.joined text: a Google API key"],
            id="a key in the pieces of a stream",
        ),
        pytest.param(
            {"request": {"body": {"json": {"parts": [{"text": KEY[:9]}, {"text": KEY[9:]}]}}}},
            ["interaction 1, request.joined text: a Google API key"],
            id="a key in the parts of a question",
        ),
        pytest.param(
            {"response": {"body": {"text": "the key is key-of-this-machine"}}},
            ["interaction 1, response.body.text: the credential that was used"],
            id="the key of the environment",
        ),
        pytest.param(
            {"said": None},
            ["does not say where it comes from (no 'recorded_against'): record it again"],
            id="no provenance",
        ),
        pytest.param(
            {"request": {"uri": "http://127.0.0.1/v1beta/models/m:x"}},
            [
                "says it was recorded against 'Gemini Developer API', but its addresses say "
                "'local server without a name (no evidence about Gemini)'"
            ],
            id="a wrong provenance",
        ),
    ],
)
def test_every_problem_is_reported_with_its_place(
    changes: dict[str, Any],
    problems: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "key-of-this-machine")
    (tmp_path / "a.yaml").write_text(dump_yaml(a_cassette(**changes)))
    count = f"1 cassette, {len(problems)} problem{'s' if len(problems) != 1 else ''}"
    assert audited(tmp_path, capsys) == (1, [*(f"a.yaml: {line}" for line in problems), count])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("interactions: &a [*a]", "cannot be loaded: The file contains a YAML reference"),
        ("- 1", "cannot be loaded: The file is not a cassette"),
        ("interactions: [1]", "cannot be loaded: Interaction 1"),
        (dump_yaml(a_cassette()) + f"  # {KEY}\n", "outside the interactions: a Google API key"),
        (dump_yaml(a_cassette() | {"x": [KEY]}), "outside the interactions: a Google API key"),
    ],
)
def test_a_file_that_is_not_a_cassette_is_a_problem(
    text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text(text)
    code, lines = audited(tmp_path, capsys)
    assert code == 1
    assert lines[0].startswith(f"a.yaml: {problem}")


def test_a_file_that_is_not_there_and_an_empty_folder_do_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audited(tmp_path, capsys) == (1, ["0 cassettes, 0 problems"])
    assert main(["audit", str(tmp_path / "gone.yaml")]) == 1
    assert "cannot be read" in capsys.readouterr().out


def test_a_missing_usage_file_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["audit", str(tmp_path), "--usage", "gone.jsonl"])
    assert capsys.readouterr().err.endswith("error: --usage: the file gone.jsonl does not exist\n")


def test_another_file_than_one_about_usage_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "usage.jsonl"
    noted = '{"cassette": "a.yaml", "unused": []}\n'
    for line in ("interactions: []", '{"cassette": "a.yaml"}', "[]", noted[:20]):
        given.write_text(noted + line)
        with pytest.raises(SystemExit):
            main(["audit", str(tmp_path), "--usage", str(given)])
        expected = f"error: --usage {given}, line 2: pytest --cassette-usage did not write this\n"
        assert capsys.readouterr().err.endswith(expected)


def test_a_file_left_by_a_failed_run_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.failed.yaml").write_text(dump_yaml(a_cassette()))
    assert audited(tmp_path, capsys)[1][0] == (
        "a.failed.yaml: was left by a failed run: rename it or delete it"
    )
