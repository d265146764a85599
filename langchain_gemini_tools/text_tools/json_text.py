"""JSON that a model wrote into a code fence, although it was told not to -> the JSON alone."""

from __future__ import annotations

_FENCE = "```"


class JsonText:
    """Takes the fence off an answer that begins with one; any other answer stays as it is."""

    def __init__(self) -> None:
        self._held = ""
        self._is_fenced: bool | None = None

    def feed(self, text: str) -> list[str]:
        """What is certain so far: all but a fence, or what may become one."""
        self._held += text
        if self._is_fenced is None and not self._read_start():
            return []
        kept = len(self._held)
        if self._is_fenced:  # the end of what is there may be the end of the fence
            kept = len(self._held.rstrip().rstrip("`").rstrip())
        said, self._held = self._held[:kept], self._held[kept:]
        return [said] if said else []

    def finish(self) -> list[str]:
        """What is left, without the fence at its end."""
        rest, self._held = self._held, ""
        if self._is_fenced:
            rest = rest.rstrip().removesuffix(_FENCE).rstrip()
        return [rest] if rest else []

    def _read_start(self) -> bool:
        """Whether it is decided that the answer begins with a fence, whose line is then gone."""
        start = self._held.lstrip()
        if not start or (_FENCE.startswith(start[:3]) and len(start) < 3):
            return False
        if not start.startswith(_FENCE):
            self._is_fenced = False
            return True
        _, newline, rest = start.partition("\n")
        if not newline:
            return False
        self._is_fenced, self._held = True, rest
        return True
