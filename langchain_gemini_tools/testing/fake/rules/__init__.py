"""What the real API rejects, rejected with its messages. A request in, a `Refusal` out.

`payload` reads JSON against the protos. Each other module checks one aspect of a request
that was read. A rule whose message is not known refuses with "Request contains an invalid argument"
and says in `Refusal.why` what is wrong. Where a documented rule contradicts a recorded exchange,
the recording wins, and a comment says so. `RULES.txt` lists all rules with their evidence; `make
figures` writes it from the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.answer import Foreign, Memory
from langchain_gemini_tools.testing.fake.responses import Refusal
from langchain_gemini_tools.testing.fake.rules.contents import check_contents, check_turns
from langchain_gemini_tools.testing.fake.rules.declarations import check_declarations
from langchain_gemini_tools.testing.fake.rules.generation import (
    check_generation,
    check_tool_config,
    check_tools,
)
from langchain_gemini_tools.testing.fake.rules.signatures import (
    check_continuation,
    check_signatures,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from langchain_gemini_tools.testing.fake.ask import Ask


__all__ = ["check"]


def check(
    ask: Ask,
    memory: Memory | None = None,
    *,
    accepts_foreign: Foreign = False,
    judge: Callable[[Refusal], None] | None = None,
) -> None:
    """Refuse what Gemini would refuse.

    Args:
        ask: The request, read.
        memory: What this emulator has sent so far; signatures are compared with it.
        accepts_foreign: Accept signatures that the memory does not know, as for recorded requests;
            or a function that decides.
        judge: Called with each refusal; raises it, or lets the broken rule pass. None raises all.

    Raises:
        Refusal: A rule is broken; the first one is raised.
    """
    sent = memory or Memory()
    checks: list[Callable[[], None]] = [
        lambda: check_continuation(ask, sent),
        lambda: check_contents(ask),
        lambda: check_generation(ask),
        lambda: check_declarations(ask),
        lambda: check_tools(ask),
        lambda: check_tool_config(ask),
        lambda: check_turns(ask),
        lambda: check_signatures(ask, sent, accepts_foreign=accepts_foreign),
    ]
    run_checks(checks, judge)


def run_checks(
    checks: Iterable[Callable[[], None]], judge: Callable[[Refusal], None] | None
) -> None:
    """Run checks in order; `judge` decides about the refusals."""
    for one in checks:
        try:
            one()
        except Refusal as refusal:
            if judge is None:
                raise
            judge(refusal)
