"""Arguments against a tool's schema: whether they fit, and why not in words a model can act on.

Nothing is converted: `"3"` is no integer. Tools may be more generous; whether a model wrote what it
was told to is another question.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_MAX_TOLD = 5
_MAX_LENGTH = 200


def find_misfit(value: Any, schema: Mapping[str, Any] | None) -> str | None:
    """What is wrong with arguments, or with an answer; `None` where they fit.

    A tool without a schema takes no arguments. A schema that is none itself, or leads nowhere, and
    a number that is too large to be checked hold nobody back: the tool will say.
    """
    if schema is None:
        return f"It takes no arguments: {', '.join(map(repr, value))}." if value else None
    from jsonschema.exceptions import SchemaError
    from referencing.exceptions import Unresolvable

    try:
        errors = sorted(_validator(schema).iter_errors(value), key=lambda error: error.json_path)
        told = list(dict.fromkeys(map(_tell, errors)))
    except (SchemaError, Unresolvable, RecursionError, ArithmeticError, ValueError, re.error):
        return None
    more = f" And {len(told) - _MAX_TOLD} more." if len(told) > _MAX_TOLD else ""
    return " ".join(told[:_MAX_TOLD]) + more if told else None


def _validator(schema: Mapping[str, Any]) -> Validator:
    return _compiled(json.dumps(schema, default=str))


@lru_cache(maxsize=256)
def _compiled(schema_text: str) -> Validator:
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.validators import extend

    schema = json.loads(schema_text)
    # Without formats: a pattern in the words of another language is no reason to check nothing.
    Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))
    find_mismatch = Draft202012Validator.VALIDATORS["pattern"]

    def find_readable_mismatch(*check: Any) -> Iterator[ValidationError]:
        with suppress(re.error):
            yield from find_mismatch(*check)

    lenient = extend(Draft202012Validator, {"pattern": find_readable_mismatch})  # type: ignore[no-untyped-call]
    validator: Validator = lenient(schema)
    return validator


def _tell(error: ValidationError) -> str:
    place = error.json_path.removeprefix("$").removeprefix(".")
    message = error.message
    if len(message) > _MAX_LENGTH:
        message = f"{message[:_MAX_LENGTH]}…"
    return f"{place}: {message}." if place else f"{message}."
