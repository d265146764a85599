"""Contents in a row, as the API wants them: the user first and last, both sides by turns.

A content is written to JSON soon after the next one has begun. What lives on is gone through again
and again by the garbage collector, and for a long history that costs more than all of the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from langchain_gemini_tools.errors import InvalidInputError
from langchain_gemini_tools.wire import history
from langchain_gemini_tools.wire.files import encode_contents
from langchain_gemini_tools.wire.replay import SKIP_SIGNATURE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_gemini_tools.wire import shapes as gemini

_BATCH = 32
"""How many contents are written at once: few enough to be gone before anybody looks for them."""


class Conversation:
    """Takes parts of both sides in order, and what had to be mended for them.

    Args:
        opening: Parts before everything else that the user says.
        signs_calls: Whether the model refuses a call without a signature; see `_sign`.
        is_large: Whether a message holds a very long text.
    """

    def __init__(
        self,
        opening: Sequence[gemini.Part] = (),
        *,
        signs_calls: bool = False,
        is_large: bool = False,
    ) -> None:
        self.repairs: list[history.Repair] = []
        self.holds_server_tools = False
        """Whether it tells, in parts of theirs, of tools that Google's side has called."""
        self._opening = opening
        self._signs_calls = signs_calls
        self._is_large = is_large
        self._pieces: list[bytes | str] = []
        self._recent: list[gemini.Content] = []
        """What is not written yet. The last one may still grow."""
        self._unsigned: list[gemini.Content] = []
        """Those of the model, since the user last spoke, whose first call has no signature."""
        self._has_call = False
        """Whether the last content has one."""

    def add(self, role: Literal["user", "model"], parts: list[gemini.Part]) -> None:
        """Add parts to this role's turn: neighbours of one role are one turn for the API."""
        if not parts:
            return
        recent = self._recent
        if not recent:
            self._begin(role)
        if recent and recent[-1]["role"] == role:
            recent[-1]["parts"] += parts
        else:
            if len(recent) >= _BATCH and not self._unsigned:
                self._write()
            recent.append({"role": role, "parts": parts})
            self._has_call = False
        if role == "model":
            self._look_for_call(parts)
        elif self._unsigned and any("functionResponse" not in part for part in parts):
            self._unsigned.clear()

    def end(self, position: int) -> None:
        """Let the user have the last word, write what is left, and put the repairs in order.

        Args:
            position: Of the last message of the model.

        Raises:
            InvalidInputError: There is nothing to send.
        """
        if not self._recent:
            raise InvalidInputError("There is nothing to send: no message besides system messages.")
        if self._recent[-1]["role"] == "model":
            explanation = f"The history ends with the model; {history.CONTINUE!r} follows it."
            self.repairs.append(history.filled(position, "ends_with_model", explanation))
            self.add("user", [{"text": history.CONTINUE}])
        self._sign()
        self._write()
        self.repairs.sort(key=lambda repair: repair.position)

    def pieces(self) -> list[bytes | str]:
        """The JSON of all contents, for `join_pieces`."""
        return [b"[", *self._pieces, b"]"]

    def _begin(self, role: Literal["user", "model"]) -> None:
        if role == "model":
            explanation = (
                f"The history starts with the model; {history.TRIMMED_START!r} precedes it."
            )
            self.repairs.append(history.filled(0, "starts_with_model", explanation))
            trimmed: gemini.Part = {"text": history.TRIMMED_START}
            self._recent.append({"role": "user", "parts": [*self._opening, trimmed]})
        elif self._opening:
            self._recent.append({"role": "user", "parts": [*self._opening]})

    def _look_for_call(self, parts: Sequence[gemini.Part]) -> None:
        if self._has_call or not self._signs_calls:
            return
        for part in parts:
            if "functionCall" in part:
                self._has_call = True
                if "thoughtSignature" not in part:
                    self._unsigned.append(self._recent[-1])
                return

    def _sign(self) -> None:
        """Give the first call of each step since the user last spoke a signature, if it has none.

        Gemini 3 refuses an unsigned call there (another vendor's, or hand-made); older turns are
        not checked: https://ai.google.dev/gemini-api/docs/thought-signatures
        """
        for content in self._unsigned:
            parts = content["parts"]
            number = next(n for n, part in enumerate(parts) if "functionCall" in part)
            parts[number] = {**parts[number], "thoughtSignature": SKIP_SIGNATURE}
        self._unsigned.clear()

    def _write(self) -> None:
        if self._pieces:
            self._pieces.append(b",")
        self._pieces += encode_contents(self._recent, is_large=self._is_large)
        self._recent.clear()
