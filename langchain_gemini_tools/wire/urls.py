"""Addresses of media: which of them the API can fetch, told from their text alone.

The API takes files of Google Cloud Storage (`gs://`), of its own Files API, YouTube videos, and
what is public on the web. To it, an address of this machine or of a private network means nothing,
or worse, something else.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

_WEB = {"http", "https"}
_GOOGLE_FILES = re.compile(r"https://[\w.-]*googleapis\.com/v\w+/files/")
_YOUTUBE = re.compile(r"https?://(www\.|m\.)?(youtube\.com|youtu\.be)/", re.IGNORECASE)
_PRIVATE_NAMES = re.compile(
    r"localhost|[^.]+|.+\.(localhost|local|localdomain|internal|intranet|lan|home\.arpa)",
    re.IGNORECASE,
)
"""Names that nobody outside can resolve: reserved ones, and those without a dot."""


def why_unreachable(url: str) -> str | None:
    """Why the API cannot fetch this; `None` where it can, as far as the text tells."""
    parts = _split(url)
    if parts is None or not parts.scheme:
        return "it is no URL"
    if parts.scheme == "gs":
        return None
    if parts.scheme not in _WEB:
        return f"it takes no {parts.scheme}: addresses"
    host = parts.hostname or ""
    return None if _is_public(host) else f"{host or 'an address without a host'} is not public"


def may_be_fetched(url: str) -> bool:
    """Whether the address is one of the web, and not one that only Google can read."""
    parts = _split(url)
    if parts is None or parts.scheme not in _WEB:
        return False
    return not (_GOOGLE_FILES.match(url) or _YOUTUBE.match(url))


def shown(url: str) -> str:
    """The address as an error may show it: without a password, and without a signature in it."""
    parts = _split(url)
    if parts is None or not parts.scheme or not parts.hostname:
        return url.partition("?")[0][:60]
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.hostname
    except ValueError:
        return None
    return parts


def _is_public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return bool(host) and not _PRIVATE_NAMES.fullmatch(host.rstrip("."))
