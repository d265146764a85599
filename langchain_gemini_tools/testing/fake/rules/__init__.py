"""What the real API rejects, rejected in its words. No sockets: a request in, a `Refusal` out.

`payload` reads JSON against the protos in `proto`; the other modules each ask one question of a
request that was read. A rule whose words we do not know refuses with the catch-all, and says in
`Refusal.why` what it was about. Where a documented rule contradicts a recorded exchange, the
recording wins, and a comment says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.memory import Foreign, Memory
from langchain_gemini_tools.testing.fake.refusal import Refusal
from langchain_gemini_tools.testing.fake.rules.contents import check_contents
from langchain_gemini_tools.testing.fake.rules.continuation import check_continuation
from langchain_gemini_tools.testing.fake.rules.declarations import check_declarations
from langchain_gemini_tools.testing.fake.rules.generation import check_generation
from langchain_gemini_tools.testing.fake.rules.signatures import check_signatures
from langchain_gemini_tools.testing.fake.rules.tool_config import check_tool_config, check_tools
from langchain_gemini_tools.testing.fake.rules.turns import check_turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_gemini_tools.testing.fake.ask import Ask


def check(
    ask: Ask,
    memory: Memory | None = None,
    *,
    accepts_foreign: Foreign = False,
    excuse: Callable[[Refusal], object] | None = None,
) -> None:
    """Refuse what Gemini would refuse.

    Args:
        ask: The request, read.
        memory: What this emulator has said so far; signatures are held against it.
        accepts_foreign: Take signatures that the memory does not know, as for recorded requests;
            or a function that decides.
        excuse: Called with a refusal whose rule is inferred, instead of raising it.

    Raises:
        Refusal: the first rule that is broken.
    """
    checks: list[Callable[[], None]] = [
        lambda: check_continuation(ask, memory or Memory()),
        lambda: check_contents(ask),
        lambda: check_generation(ask),
        lambda: check_declarations(ask),
        lambda: check_tools(ask),
        lambda: check_tool_config(ask),
        lambda: check_turns(ask),
        lambda: check_signatures(ask, memory or Memory(), accepts_foreign=accepts_foreign),
    ]
    for one in checks:
        try:
            one()
        except Refusal as refusal:
            if excuse is None or refusal.evidence != "inferred":
                raise
            excuse(refusal)


__all__ = ["check"]
