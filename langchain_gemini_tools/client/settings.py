"""Where the API is and who is calling."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from langchain_gemini_tools.facts.credentials import environment_keys, remember, secret_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import SecretStr

_NOT_IN_A_HEADER = re.compile(r"[^\t -~]|^\s|\s\Z")


def odd_character(value: str) -> str | None:
    """Where a value has a character that no header can carry, and which; never the value."""
    if not (found := _NOT_IN_A_HEADER.search(value)):
        return None
    from unicodedata import name

    told = f"U+{ord(found[0]):04X}, {name(found[0], 'a control character')}"
    return f"its character {found.start() + 1} of {len(value)} is {told}, which cannot be sent"


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """Where the API is and who is calling. None leaves a choice to the SDK and its environment."""

    api_key: SecretStr | None = None
    vertexai: bool | None = None
    project: str | None = None
    location: str | None = None
    credentials: Any = field(default=None, repr=False)
    """Credentials of `google.auth`, for Vertex AI."""
    base_url: str | None = None
    api_version: str | None = None
    """`v1beta` or, on Vertex AI, `v1beta1`, unless set here or in `GOOGLE_GENAI_API_VERSION`."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    client_args: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """For the HTTP clients behind: `verify`, `proxy`, `limits`, `transport` and so on."""
    async_client_args: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Added to `client_args`, whose `transport`, `mounts` and `event_hooks` are for sync only."""
    timeout_seconds: float | None = None
    """For each phase of a request made through the SDK's client that sets no timeout itself."""

    def __post_init__(self) -> None:
        remember(self)

    @property
    def secrets(self) -> list[str]:
        """Every credential that an error's text might quote."""
        key = self.api_key.get_secret_value() if self.api_key else None
        token = getattr(self.credentials, "token", None)
        values = [key, token, *secret_values(self.headers), *environment_keys()]
        return [value for value in values if isinstance(value, str)]

    def __copy__(self) -> ClientSettings:
        return self

    def __deepcopy__(self, memo: object) -> ClientSettings:
        return self  # a value; credentials and clients inside cannot be doubled

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError(
            "These settings hold credentials and are not pickled. Pickle the model: it leaves them "
            "out."
        )
