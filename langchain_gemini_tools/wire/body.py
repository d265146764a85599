"""Contents in the order that the API requires, and their JSON.

The API requires that the user has the first turn and that turns alternate; newer models require
that the user has the last turn as well. A turn of the user may be several contents: the function
responses, the files that belong to them, and what the user says. Users report that Gemini 3.5 does
not respond to function responses beside text in one content. `ContentsWriter` sees to all that.

It encodes a content soon after the next one has begun: objects that stay alive are traversed by the
garbage collector again and again, which costs more than everything else for a long history.

Large files are copied into the body once, when everything else is encoded. Until then a marker
takes their place: a JSON encoder would copy them twice, a fast one ten times.
"""

from __future__ import annotations

import io
import uuid
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_gemini_tools.errors import InvalidInputError
from langchain_gemini_tools.facts.json_values import encode_json
from langchain_gemini_tools.wire import history
from langchain_gemini_tools.wire.media import is_base64, slices
from langchain_gemini_tools.wire.replay import SKIP_SIGNATURE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_gemini_tools.wire import shapes as gemini
    from langchain_gemini_tools.wire.history import ModelMessage

_BATCH = 32
"""How many contents are encoded at once: few enough to be freed before they are traversed."""
_MIN_FILE_LENGTH = 100_000
"""Length of base64 from which a marker is worth it."""

ContentKind = Literal["model", "user", "results", "files"]
"""What a content consists of. All but the first are of the user."""

Pieces = list[bytes | str]
"""JSON in pieces; the strings are the base64 of large files."""


class ContentsWriter:
    """Collects the parts of both roles in order, with the repairs that were made for them.

    Args:
        opening: Parts that precede everything else from the user.
        signs_calls: Whether the model rejects a function call without a signature; see `_sign`.
        may_end_with_model: Whether the model accepts a last turn of its own, and continues it.
        is_large: Whether a message contains a very long text.
    """

    has_steps = False
    """Whether contents are written as steps, and messages may have kept theirs."""

    def __init__(
        self,
        opening: Sequence[gemini.Part] = (),
        *,
        signs_calls: bool = False,
        may_end_with_model: bool = False,
        is_large: bool = False,
    ) -> None:
        self.repairs: list[history.Repair] = []
        self.has_server_tools = False
        """Whether there are parts of tools that the API has run itself."""
        self._opening = opening
        self._signs_calls = signs_calls
        self._may_end_with_model = may_end_with_model
        self._is_large = is_large
        self._pieces: Pieces = []
        self._recent: list[gemini.Content] = []
        """Contents that are not encoded yet. The last one may still grow."""
        self._may_have_files = False
        """Whether there may be files in them."""
        self._unsigned: list[gemini.Content] = []
        """The model's contents since the last user text whose first call has no signature."""
        self._has_call = False
        """Whether the last content has a function call."""
        self._kind: ContentKind | None = None
        """What the last content consists of."""

    def add(
        self, kind: ContentKind, parts: list[gemini.Part], *, may_have_files: bool = False
    ) -> None:
        """Add parts to a turn; adjacent parts of one kind are one content.

        Args:
            kind: What they are. A turn of the user may have all kinds that are not the model's.
            parts: The parts; the list is used.
            may_have_files: Whether there may be files in them.
        """
        if not parts:
            return
        if self._kind is None:
            self._begin(kind)
        recent = self._recent
        if kind == self._kind:
            recent[-1]["parts"] += parts
        else:
            if len(recent) >= _BATCH and not self._unsigned:
                self._encode()
            recent.append({"role": "model" if kind == "model" else "user", "parts": parts})
            self._has_call = False
            self._kind = kind
        if may_have_files:
            self._may_have_files = True
        if kind == "model":
            if self._signs_calls and not self._has_call:
                self._look_for_call(parts)
        elif self._unsigned and any("functionResponse" not in part for part in parts):
            self._unsigned.clear()

    def finish(self, position: int) -> None:
        """End with a turn that the model accepts, encode the rest and sort the repairs.

        Args:
            position: Index of the model's last message.

        Raises:
            InvalidInputError: The history has no content to send.
        """
        if not self._recent:
            raise InvalidInputError(
                "There is nothing to send: no message has content, apart from system messages. "
                "Add a user message."
            )
        if self._kind == "model" and not self._may_end_with_model:
            # "Requests ending with a model turn are not supported."
            self.repairs.append(history.repair("ends_with_model", position))
            self.add("user", [{"text": history.CONTINUE}])
        if self._unsigned:
            self._sign()
        self._encode()
        self.repairs.sort(key=lambda repair: repair.position)

    def restore(
        self,
        paired: ModelMessage,  # noqa: ARG002
        calls: list[gemini.Part],  # noqa: ARG002
        *,
        reads_signatures: bool,  # noqa: ARG002
    ) -> list[gemini.Part] | None:
        """Return the steps that a message has kept, as parts; `None` if there are none.

        Args:
            paired: The message and its calls.
            calls: The calls as they are rendered, with ids that are unique in the turn.
            reads_signatures: Whether this model accepts the signatures in the steps.
        """
        return None

    def pieces(self) -> Pieces:
        """Return the JSON of all contents."""
        return [b"[", *self._pieces, b"]"]

    def _begin(self, kind: ContentKind) -> None:
        opening = [*self._opening]
        if kind == "model":
            self.repairs.append(history.repair("starts_with_model", 0))
            opening.append({"text": history.TRIMMED_START})
        if opening:
            self._recent.append({"role": "user", "parts": opening})
            self._kind = "user"

    def _look_for_call(self, parts: Sequence[gemini.Part]) -> None:
        for part in parts:
            if "functionCall" in part:
                self._has_call = True
                if "thoughtSignature" not in part:
                    self._unsigned.append(self._recent[-1])
                return

    def _sign(self) -> None:
        """Sign the first call of each step since the last user text, if it has no signature.

        Gemini 3 rejects an unsigned call there (another vendor's, or hand-made); older turns are
        not checked: https://ai.google.dev/gemini-api/docs/thought-signatures
        """
        for content in self._unsigned:
            parts = content["parts"]
            number = next(n for n, part in enumerate(parts) if "functionCall" in part)
            parts[number] = {**parts[number], "thoughtSignature": SKIP_SIGNATURE}
        self._unsigned.clear()

    def _encode(self) -> None:
        if self._pieces:
            self._pieces.append(b",")
        self._pieces += self._encoded(self._recent)
        self._recent.clear()
        self._may_have_files = False

    def _encoded(self, contents: list[gemini.Content]) -> Pieces:
        """Return the JSON of contents, without brackets."""
        files: list[str] = []
        marker = ""
        if self._may_have_files and _have_files(contents):
            marker = uuid.uuid4().hex
            contents = [
                {**content, "parts": [_mark(part, marker, files) for part in content["parts"]]}
                for content in contents
            ]
        encoded = encode_json(contents, is_large=self._is_large)[1:-1]
        if not files:
            return [encoded]
        first, *others = encoded.split(marker.encode("ascii"))
        pieces: Pieces = [first]
        for file, after in zip(files, others, strict=True):
            pieces += [file, after]
        return pieces


def encode_body(body: Mapping[str, Any], *, is_large: bool) -> bytes:
    """Encode a request body, whose contents may be a `ContentsWriter`.

    Args:
        body: The fields of the request.
        is_large: Whether it may contain very long texts, apart from files.

    Raises:
        InvalidInputError: It contains something that cannot be written as JSON.
    """
    pieces: Pieces = []
    for key, value in body.items():
        pieces.append(b"," if pieces else b"{")
        if isinstance(value, ContentsWriter):
            pieces += [b'"%b":' % key.encode("ascii"), *value.pieces()]
        else:
            pieces.append(encode_json({key: value}, is_large=is_large)[1:-1])
    return _join([*pieces, b"}"])


def _join(pieces: Sequence[bytes | str]) -> bytes:
    if str not in map(type, pieces):
        return b"".join(cast("Sequence[bytes]", pieces))
    whole = io.BytesIO()
    # Reserve the exact size first: a buffer that grows by itself reserves more than it needs.
    whole.seek(sum(map(len, pieces)) - 1)
    whole.write(b" ")
    whole.seek(0)
    for piece in pieces:
        if isinstance(piece, bytes):
            whole.write(piece)
        else:
            whole.writelines(slices(piece))
    return whole.getvalue()


# Large files


def _have_files(contents: Sequence[gemini.Content]) -> bool:
    return any(_may_have_file(part) for content in contents for part in content["parts"])


def _may_have_file(part: Any) -> bool:
    response = part.get("functionResponse")
    return "inlineData" in part or (isinstance(response, dict) and "parts" in response)


def _mark(part: Any, marker: str, files: list[str]) -> Any:
    """Replace each large file in a part by a marker; a part that is sent back may be anything."""
    match part:
        case {"functionResponse": {"parts": list(parts)} as response}:
            marked = [_mark_file(inner, marker, files) for inner in parts]
            return {**part, "functionResponse": {**response, "parts": marked}}
    return _mark_file(part, marker, files)


def _mark_file(part: Any, marker: str, files: list[str]) -> Any:
    match part:
        case {"inlineData": {"data": str(data)} as blob} if len(
            data
        ) >= _MIN_FILE_LENGTH and is_base64(data):
            files.append(data)
            return {**part, "inlineData": {**blob, "data": marker}}
    return part
