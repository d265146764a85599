"""Which fields of a model hold credentials, and what becomes of them.

A pickle may be stored, sent and read by others: no credential goes into one. Whoever loads it has
an environment of its own, and what that does not give is asked for by name before anything is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from langchain_gemini_tools.errors import GeminiAuthenticationError
from langchain_gemini_tools.facts.credentials import environment_keys, secret_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SECRET_ARGUMENTS = frozenset(
    {"auth", "cert", "cookies", "event_hooks", "headers", "mounts", "params", "transport"}
)
"""Arguments of an HTTP client that are credentials, or objects that may hold some."""

_NOT_SHOWN = "[not shown]"

_ENVIRONMENT_GIVES = {"credentials"}
"""Left out without a question: Vertex AI then asks the environment who is calling."""


class FoundKey(SecretStr):
    """A key that nobody gave: the environment holds it."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SecretStr):
            return False
        return other.get_secret_value() == self.get_secret_value()

    __hash__ = SecretStr.__hash__


def find_key() -> FoundKey | None:
    """The key of the environment."""
    value = next(iter(environment_keys()), None)
    return FoundKey(value) if value else None


def split_credentials(fields: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields that may be stored, and the names of those that may not."""
    held = tuple(name for name, value in fields.items() if value and _holds_credential(name, value))
    return {name: value for name, value in fields.items() if name not in held}, held


def _holds_credential(name: str, value: Any) -> bool:
    match name:
        case "google_api_key" | "credentials":
            return True
        case "additional_headers" | "default_metadata":
            return bool(secret_values(dict(value)))
        case "client_args" | "async_client_args":
            proxy = value.get("proxy") or ""
            return (
                bool(value.keys() & _SECRET_ARGUMENTS) or "@" in str(proxy) or proxy != str(proxy)
            )
    return False


def check_given_again(model: Any, left_out: Sequence[str]) -> None:
    """Refuse to call with an unpickled model that lacks what its pickle did not carry.

    Raises:
        GeminiAuthenticationError: It names every field that has to be given again.
    """
    missing = [
        name for name in left_out if getattr(model, name) is None and name not in _ENVIRONMENT_GIVES
    ]
    if missing:
        raise GeminiAuthenticationError(
            "This model was unpickled, and a pickle carries no credentials: "
            f"{', '.join(missing)} stayed behind. Set GOOGLE_API_KEY (for the key), or give "
            'them again: model.model_copy(update={"' + missing[0] + '": ...}).'
        )


def without_inputs(error: ValidationError) -> ValidationError:
    """The same refusal without what was given, which is often all of it: the key, too.

    Numbers stay: they are no secrets, and tell what is wrong.
    """
    details = [
        InitErrorDetails(
            type=PydanticCustomError(told["type"], told["msg"], _plain(told.get("ctx", {}))),
            loc=told["loc"],
            input=told["input"] if isinstance(told["input"], (int, float)) else _NOT_SHOWN,
        )
        for told in error.errors(include_url=False)
    ]
    return ValidationError.from_exception_data(error.title, details, hide_input=True)


def _plain(context: Mapping[str, Any]) -> dict[str, Any]:
    """What an error type tells of its limits, but no exception: its frames hold what was given."""
    return {name: each for name, each in context.items() if not isinstance(each, Exception)}


def check_address(address: str | dict[str, Any] | None) -> None:
    """Refuse an address that is a credential too: it would be shown wherever the address is.

    Raises:
        ValueError: It holds a user's name, a password or a query, or options that are no address.
    """
    if isinstance(address, dict):
        if others := address.keys() - {"api_endpoint", "base_url"}:
            raise ValueError(
                f"client_options takes 'api_endpoint' only, not {', '.join(sorted(others))}: "
                "ChatGemini has arguments of their own for the rest, such as api_key."
            )
        address = address.get("api_endpoint") or address.get("base_url")
    try:
        parts = urlsplit(address or "")
    except ValueError:
        return  # no address at all, which the first call tells
    if "@" in parts.netloc or parts.query:
        raise ValueError(
            "base_url holds a user, a password or a query, which logs and repr would show. Give "
            'additional_headers={"Authorization": "Basic ..."} instead.'
        )
