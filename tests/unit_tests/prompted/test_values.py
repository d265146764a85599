from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_gemini_tools.prompted.values import UnreadableError, parse_whole

text = st.text(st.characters(codec="utf-8"), max_size=12)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(text.filter(bool), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(values, st.booleans())
def test_json_is_parsed_as_json(value: Any, is_ascii: bool) -> None:
    written = json.dumps(value, ensure_ascii=is_ascii)
    assert repr(parse_whole(written)) == repr(json.loads(written))
    assert repr(parse_whole(json.dumps(value, indent=2))) == repr(json.loads(written))


@given(values)
def test_python_literals_are_parsed_as_python(value: Any) -> None:
    assert repr(parse_whole(repr(value))) == repr(value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("[true, True, null, None, 0, -0.5, 1E2]", [True, True, None, None, 0, -0.5, 100.0]),
        (r'"\u00e9\x41\U0001F600\ud83d\ude00"', "éA😀😀"),
        (r'"\d \x4 \u12 \U99999999"', r"\d \x4 \u12 \U99999999"),
        ('"a\\\nb"', "ab"),
        ("''''it's'''", "'it's"),
        ('""', ""),
        ("{a-b: 1, $c = 2}", {"a-b": 1, "$c": 2}),
        ("[(1, 2), (), (3,), (4)]", [[1, 2], [], [3], 4]),
        ("[50_000_000, -1_000.5, .5, 5.]", [50_000_000, -1000.5, 0.5, 5.0]),
        (r"""[r"\d\"", R'\n', u'é', f'a', rf'{{\d}}']""", ['\\d\\"', "\\n", "é", "a", "{\\d}"]),
        ("['it''s', 'the ''end''', '']", ["it's", "the 'end'", ""]),
    ],
)
def test_other_spellings_are_parsed_as_intended(written: str, value: Any) -> None:
    assert repr(parse_whole(written)) == repr(value)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("", "it ends too early"),
        ('"a', "it ends too early"),
        ("[1", "it ends too early"),
        ("1 2", "something follows the value"),
        ("cats", "'cats' is not a JSON value; put text in double quotes"),
        ("+1", "'+1' is not a JSON value; put text in double quotes"),
        ("1__000", "'1__000' is not a JSON value; put text in double quotes"),
        ("(1 + 2)", ") or a comma is missing before '+'"),
        ("'a'', 1", 'a comma is missing before "\'"'),
        ('["a""b"]', "] or a comma is missing before '\"'"),
        ("f'a {b}'", "the f-string 'a {b}' has a placeholder; write the text itself"),
        ("rb'a'", "'rb' is not a JSON value; put text in double quotes"),
        ("[1,, 2]", "a value cannot begin with ','"),
        ("[1 2]", "] or a comma is missing before '2'"),
        ("{1: 2, 1: 3}", "'1' is given twice"),
        ("{: 2}", "a name in double quotes is missing before ':'"),
        ('{"": 2}', "a name in double quotes is missing before '\"'"),
        ("{a}", "a colon is missing after 'a'"),
    ],
)
def test_an_error_explains_what_is_wrong(written: str, complaint: str) -> None:
    with pytest.raises(UnreadableError) as refused:
        parse_whole(written)
    assert str(refused.value) == complaint
