"""What is injected into tools, taken out of what the model is told about their failures.

An error quotes what it is about, and the model reads errors. What a tool gives as its result is the
tool's own decision, and stays as it is.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus
from uuid import UUID

from pydantic import BaseModel, SecretBytes, SecretStr

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langchain_core.messages import ToolMessage

HIDDEN = "[hidden]"

_MIN_LENGTH = 4  # shorter values are no secrets
_MIN_LENGTH_INSIDE = 8  # shorter ones are taken out as words of their own, not inside of others
_MAX_VALUES = 1_000  # what holds more is data, and each one would have to be looked for
# Pydantic quotes all that it was given, and cuts it in the middle: half a secret is left of it.
_QUOTED_INPUT = re.compile(r"input_value=.*(?=, input_type=)")


def conceal(text: str, injected: Mapping[str, Any]) -> str:
    """The text without injected values, in any form in which errors show them."""
    if not injected:
        return text
    text = _QUOTED_INPUT.sub(f"input_value={HIDDEN}", text)
    forms = {form for value in _texts(injected.values()) for form in _forms(value)}
    for form in sorted(forms, key=len, reverse=True):
        if len(form) >= _MIN_LENGTH_INSIDE:
            text = text.replace(form, HIDDEN)
        elif len(form) >= _MIN_LENGTH and form in text:
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", HIDDEN, text)
    return text


def conceal_in_message(message: ToolMessage, injected: Mapping[str, Any]) -> ToolMessage:
    """The message without injected values in its text."""
    if isinstance(message.content, str):
        content: Any = conceal(message.content, injected)
    else:
        content = [_conceal_in_block(block, injected) for block in message.content]
    return message.model_copy(update={"content": content})


def _conceal_in_block(block: Any, injected: Mapping[str, Any]) -> Any:
    if isinstance(block, str):
        return conceal(block, injected)
    text = block.get("text")
    return {**block, "text": conceal(text, injected)} if isinstance(text, str) else block


def _texts(values: Iterable[Any]) -> set[str]:
    """Every text in the values, and numbers and ids as texts."""
    waiting, found = deque(values), set[str]()
    seen: dict[int, Any] = {}  # with the values, so that no id is given to another one
    while waiting and len(seen) < _MAX_VALUES:
        value = waiting.popleft()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        with suppress(Exception):  # a stranger's value may be closed, or too long to be written
            if isinstance(value, str):
                found.add(value.strip())
            elif isinstance(value, int | UUID) and not isinstance(value, bool):
                found.add(str(value))
            elif isinstance(value, bytes | bytearray):
                found.add(repr(bytes(value))[2:-1])
            else:
                waiting.extend(islice(_parts(value), _MAX_VALUES))
    return found


def _parts(value: Any) -> Iterable[Any]:
    """What a value holds, where that can be seen."""
    match value:
        case SecretStr() | SecretBytes():
            return [value.get_secret_value()]
        case Mapping():
            return value.values()
        case list() | tuple() | AbstractSet():
            return value
        case BaseModel():
            return vars(value).values()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return []


def _forms(value: str) -> Iterator[str]:
    """The value as it is, quoted by Python, in JSON, and in an address."""
    yield from (value, repr(value)[1:-1], json.dumps(value)[1:-1])
    with suppress(UnicodeEncodeError):  # half a character, which is in no address
        yield from (quote(value), quote(value, safe=""), quote_plus(value))
