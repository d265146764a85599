"""Tokens that continue a long answer: who may send them, and with what.

The API's words are not known: no recording has a token. All refusals are the catch-all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.memory import decode, fingerprint
from langchain_gemini_tools.testing.fake.refusal import invalid

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Ask
    from langchain_gemini_tools.testing.fake.memory import Memory


def check_continuation(ask: Ask, memory: Memory) -> None:
    """Refuse a token that does not belong to this request."""
    if not (token := ask.body.get("continuationToken")):
        return
    # Inferred: a token is opaque and issued by the API (documented), so others mean nothing.
    if (issued := memory.tokens.get(decode(token))) is None:
        raise invalid("This continuation token was never issued")
    # Inferred: what was generated belongs to its model.
    if issued.model != ask.model.name:
        raise invalid(f"This continuation token is one of {issued.model}")
    # Documented: the same request is sent again with the token, and never the partial text.
    # Reported (@ai-sdk/google 4.0.117): `maxOutputTokens` may be higher than before.
    sent, before = fingerprint(ask), issued.request
    if sent["contents"][: len(before["contents"])] == before["contents"] != sent["contents"]:
        raise invalid(
            "Contents were added to a request that continues with a token", evidence="documented"
        )
    if sent != before:
        changed = sorted(key for key in {*sent, *before} if sent.get(key) != before.get(key))
        raise invalid(
            f"A request that continues with a token has other {', '.join(changed)}",
            evidence="documented",
        )
