"""What the real API rejects, rejected in its words. No sockets: a request in, a `Refusal` out.

`payload` reads JSON against the protos in `proto`; the other modules each ask one question of a
request that was read. A rule whose words we do not know refuses with the catch-all, and says in
`Refusal.why` what it was about. Where a documented rule contradicts a recorded exchange, the
recording wins, and a comment says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.emulator.ask import Ask
    from tests.emulator.memory import Memory


def check(ask: Ask, memory: Memory | None = None, *, accepts_foreign: bool = False) -> None:
    """Refuse what Gemini would refuse.

    Args:
        ask: The request, read.
        memory: What this emulator has said so far; signatures are held against it.
        accepts_foreign: Take signatures that the memory does not know, as for recorded requests.

    Raises:
        Refusal: the first rule that is broken.
    """


__all__ = ["check"]
