"""Audio of speech models -> WAV.

Speech models return raw samples (`audio/L16;codec=pcm;rate=24000`), which no player opens; a stream
returns them in pieces. `PcmParser` joins the pieces of a response and adds a WAV header.
"""

from __future__ import annotations

import base64
import binascii
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_gemini_tools.errors import UnreadableResponseError

if TYPE_CHECKING:
    from langchain_gemini_tools.facts.blocks import Block

_PCM_TYPES = {"audio/l16", "audio/pcm"}
_DEFAULT_RATE = 24_000
_SAMPLE_BYTES = 2


@dataclass(frozen=True)
class PcmFormat:
    """How raw samples are to be read: 16 bits, little-endian."""

    rate: int = _DEFAULT_RATE
    """Samples per second."""
    channels: int = 1


def parse_pcm_format(mime_type: str) -> PcmFormat | None:
    """Return the format of raw samples by their MIME type; `None` for any other type."""
    kind, *parameters = (each.strip().lower() for each in mime_type.split(";"))
    if kind not in _PCM_TYPES:
        return None
    numbers = {
        name: int(value)
        for name, _, value in (each.partition("=") for each in parameters)
        if value.isascii() and value.isdigit() and int(value)
    }
    return PcmFormat(numbers.get("rate", _DEFAULT_RATE), numbers.get("channels", 1))


class PcmParser:
    """Collects raw samples. `feed` each piece, then `finish` once."""

    def __init__(self) -> None:
        self._runs: list[tuple[PcmFormat, bytearray]] = []

    def __bool__(self) -> bool:
        return bool(self._runs)

    def feed(self, form: PcmFormat, data: str) -> None:
        """Add samples in base64.

        Raises:
            UnreadableResponseError: They are not base64.
        """
        try:
            samples = base64.b64decode(data)
        except (ValueError, binascii.Error):
            raise UnreadableResponseError(
                "The response contains audio that is not base64."
            ) from None
        if not self._runs or self._runs[-1][0] != form:
            self._runs.append((form, bytearray()))
        self._runs[-1][1].extend(samples)

    def finish(self) -> list[Block]:
        """Return one WAV file for all samples, or one for each format if there are several."""
        runs, self._runs = self._runs, []
        return [audio_block(_wav(form, samples), "audio/wav") for form, samples in runs]


def audio_block(data: str, mime_type: str) -> Block:
    """Return LangChain's standard block for audio in base64."""
    return {"type": "audio", "base64": data, "mime_type": mime_type}


def _wav(form: PcmFormat, samples: bytearray) -> str:
    import wave  # only speech models need it

    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(form.channels)
        writer.setsampwidth(_SAMPLE_BYTES)
        writer.setframerate(form.rate)
        writer.writeframes(samples)
    return base64.b64encode(file.getvalue()).decode("ascii")
