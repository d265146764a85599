"""What the real API rejects, rejected in its words. No sockets: a request in, a `Refusal` out.

`payload` reads JSON against the protos in `proto`; the other modules each ask one question of a
request that was read. A rule whose words we do not know refuses with the catch-all, and says in
`Refusal.why` what it was about. Where a documented rule contradicts a recorded exchange, the
recording wins, and a comment says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.emulator.memory import Memory
from tests.emulator.rules.contents import check_contents
from tests.emulator.rules.continuation import check_continuation
from tests.emulator.rules.declarations import check_declarations
from tests.emulator.rules.generation import check_generation
from tests.emulator.rules.signatures import check_signatures
from tests.emulator.rules.tool_config import check_tool_config, check_tools
from tests.emulator.rules.turns import check_turns

if TYPE_CHECKING:
    from tests.emulator.ask import Ask


def check(ask: Ask, memory: Memory | None = None, *, accepts_foreign: bool = False) -> None:
    """Refuse what Gemini would refuse.

    Args:
        ask: The request, read.
        memory: What this emulator has said so far; signatures are held against it.
        accepts_foreign: Take signatures that the memory does not know, as for recorded requests.

    Raises:
        Refusal: the first rule that is broken.
    """
    check_continuation(ask, memory or Memory())
    check_contents(ask)
    check_generation(ask)
    check_declarations(ask)
    check_tools(ask)
    check_tool_config(ask)
    check_turns(ask)
    check_signatures(ask, memory or Memory(), accepts_foreign=accepts_foreign)


__all__ = ["check"]
