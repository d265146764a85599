"""The form in which a batch is sent a response schema.

In batches, `responseJsonSchema` is reported to give degenerate JSON (0 of 502 responses were
right), where the older `responseSchema` works. So the schema is sent in that form, which has no
field for some keywords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.facts.json_values import encode_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_gemini_tools.wire.request import RenderedRequest

_JSON_SCHEMA, _SCHEMA = "responseJsonSchema", "responseSchema"


def schema_rewriter(template: RenderedRequest) -> Callable[[bytes], bytes]:
    """Return a function that replaces the response schema in the bodies of a job.

    Args:
        template: A request with the options of the job.

    Raises:
        InvalidOptionError: The other form cannot express the schema.
    """
    config: dict[str, Any] = dict(template.body.get("generationConfig") or {})
    schema = config.get(_JSON_SCHEMA)
    if schema is None:
        return lambda body: body
    # Loads what is known about schemas, which most jobs never need.
    from langchain_gemini_tools.wire.schema.openapi import (
        find_keywords_without_field,
        render_openapi_schema,
    )

    if lost := find_keywords_without_field(schema):
        raise InvalidOptionError(
            f"A batch job cannot use this response schema, because of {', '.join(lost)}: batches "
            "need Gemini's Schema form, which has no field for it. Change the schema, or use "
            "with_structured_output(..., method='function_calling')."
        )
    rendered = render_openapi_schema(schema)
    before = b'"%b":%b' % (_JSON_SCHEMA.encode(), encode_json(schema))
    after = b'"%b":%b' % (_SCHEMA.encode(), encode_json(rendered))

    def rewrite(body: bytes) -> bytes:
        # Text that a user wrote cannot match: quotes inside of strings are escaped.
        if body.count(before) == 1:
            return body.replace(before, after)
        return _rewrite_decoded(body, rendered)

    return rewrite


def _rewrite_decoded(body: bytes, rendered: dict[str, Any]) -> bytes:
    import json

    decoded = json.loads(body)
    config = {k: v for k, v in decoded["generationConfig"].items() if k != _JSON_SCHEMA}
    decoded["generationConfig"] = {**config, _SCHEMA: rendered}
    return encode_json(decoded, is_large=True)
