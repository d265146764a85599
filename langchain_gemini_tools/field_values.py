"""The values of `ChatGemini`'s fields: what is rejected, what is secret, how they are stored.

Everything here is about one value. `fields.py` has the fields.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, SecretStr, ValidationError

from langchain_gemini_tools.facts.credentials import private_values
from langchain_gemini_tools.facts.environment import environment_keys
from langchain_gemini_tools.facts.http import check_headers, find_invalid_character
from langchain_gemini_tools.facts.json_values import snake
from langchain_gemini_tools.facts.models import shows_family
from langchain_gemini_tools.wire.generation import plain, render_output_format
from langchain_gemini_tools.wire.invocation import FetchLimits
from langchain_gemini_tools.wire.tools.builtin import is_builtin

if TYPE_CHECKING:
    import inspect
    from collections.abc import Iterable, Mapping

_SECRET_ARGUMENTS = frozenset(
    {"auth", "cert", "cookies", "event_hooks", "headers", "mounts", "params", "transport"}
)
"""Arguments of an HTTP client that are credentials, or objects that may contain them."""


class Option(NamedTuple):
    """Marks a field that `bind` and each call may set as well."""

    sent_in: Literal["generationConfig", "body"] | None = None
    """The object that has the option, under its own name in camelCase. None: it is rendered by a
    module of `wire`, or it is not sent."""


CALL = Option()
GENERATION = Option("generationConfig")
BODY = Option("body")


def read_tier(tier: Any) -> Any:
    """Read the SDK's enum and the API's longer spelling, `SERVICE_TIER_FLEX`."""
    value = getattr(tier, "value", tier)
    if not isinstance(value, str):
        return value
    word = value.lower().removeprefix("service_tier_")
    return None if word == "unspecified" else word


class FoundKey(SecretStr):
    """A key from the environment, in contrast to one that was passed."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SecretStr):
            return False
        return other.get_secret_value() == self.get_secret_value()

    __hash__ = SecretStr.__hash__


class OwnProfile(dict[str, Any]):
    """A profile that follows the model, in contrast to one that was passed."""


def keep_found_key(key: Any, validate: Any) -> Any:
    """Keep the mark of a key in a model that is made from the fields of another model."""
    return key if isinstance(key, FoundKey) else validate(key)


def check_key(key: SecretStr | None) -> SecretStr | None:
    """Reject a key that cannot be sent, and remove the line break that a file adds.

    Raises:
        ValueError: A character of it cannot be part of a header.
    """
    if key is None:
        return None
    value = key.get_secret_value()
    if value != value.strip():
        key = SecretStr(value.strip())
    if reason := find_invalid_character(key.get_secret_value()):
        raise ValueError(f"The API key is not valid: {reason}. Copy it again.")
    return key


Headers = Annotated[dict[str, str] | None, AfterValidator(check_headers)]


def find_key() -> FoundKey | None:
    """Return the key of the environment, if there is one."""
    value = next(iter(environment_keys()), None)
    return FoundKey(value) if value else None


MAX_SECONDS = 1_000_000.0
"""Eleven days. Sockets accept no more than 24 days; `None` means no limit."""

_PLACE = re.compile(r"[\w.:-]+", re.ASCII)
_PROVIDER = re.compile(r"google_(?:genai|vertexai):")
_MODEL_NAME = re.compile(r"[\w.@:-]+(?:/[\w.@:-]+)*", re.ASCII)


def check_model_name(name: str) -> str:
    """Reject a name that would change the URL of the request: it becomes a part of its path."""
    if found := _PROVIDER.match(name):
        raise ValueError(
            f"{name[:80]!r} begins with the name of a provider, as init_chat_model expects it. "
            f"Use model={name[found.end() :][:80]!r}"
        )
    if _MODEL_NAME.fullmatch(name) and not {".", ".."} & set(name.split("/")):
        return name
    raise ValueError(
        f"{name[:80]!r} is not a valid model name. Use a name such as 'gemini-3.8-flash': letters, "
        "digits, '.', '_', '-', '@', ':' and single slashes"
    )


def check_model_family(name: str | None) -> str | None:
    """Reject a name that shows no family: no rules would apply, as if it had not been set."""
    if not name or shows_family(name):
        return name
    raise ValueError(
        f"{name[:80]!r} is not the name of a model whose rules are known. Use one such as "
        "'gemini-2.5-flash' or 'gemma-3-27b-it'. For another model without function calling, set "
        "tool_calling='prompted'"
    )


def check_place(value: str | None) -> str | None:
    """Reject what would change the URL of the request: the location is a part of its host."""
    if not value or (_PLACE.fullmatch(value) and ".." not in value):
        return value
    raise ValueError(f"{value[:80]!r} is not valid: use letters, digits, '-', '_', '.' and ':'")


Place = Annotated[str | None, AfterValidator(check_place)]


_IN_GENERATION_CONFIG = "Pass it to a call inside generation_config={...}."
_PROXY = "Use client_args={'proxy': ...} on the model."
_SYSTEM_MESSAGE = "Put a SystemMessage before the other messages."

_REPLACEMENTS = {
    "allowed_function_names": "Use tool_choice=[...] with the names.",
    "automatic_function_calling": "Use ToolLoop, or create_agent of LangChain.",
    "api_base": "Use base_url.",
    "budget_tokens": "Use thinking_budget.",
    "client": "Set api_key, base_url and so on; model.client is the SDK's client of this model.",
    "config": "Pass its settings under their own names, such as temperature=0.5.",
    "default_headers": "Use additional_headers.",
    "enable_enhanced_civic_answers": _IN_GENERATION_CONFIG,
    "effort": "Use reasoning_effort.",
    "endpoint": "Use base_url.",
    "extra_headers": "Use additional_headers.",
    "function_call": "Use tool_choice.",
    "function_calling_config": "Use tool_choice, or tool_config={'function_calling_config': ...}.",
    "functions": "Use bind_tools.",
    "generation_config": "Use the fields of the model, or pass generation_config to a call.",
    "headers": "Use additional_headers.",
    "http_async_client": "Use async_client_args on the model: the arguments of its HTTP client.",
    "http_client": "Use client_args on the model: the arguments of its HTTP client.",
    "http_options": "Use additional_headers, timeout, base_url and api_version on the model.",
    "json_mode": "Use with_structured_output, or response_mime_type='application/json'.",
    "model_armor_config": "Use extra_body={'modelArmorConfig': ...}.",
    "model_selection_config": _IN_GENERATION_CONFIG,
    "openai_api_base": "Use base_url.",
    "proxies": _PROXY,
    "proxy": _PROXY,
    "region": "Use location.",
    "region_name": "Use location.",
    "response_format": "Use response_schema, or with_structured_output.",
    "routing_config": _IN_GENERATION_CONFIG,
    "safety_filters": "Use safety_settings.",
    "system": _SYSTEM_MESSAGE,
    "system_instruction": _SYSTEM_MESSAGE,
    "system_message": _SYSTEM_MESSAGE,
    "system_prompt": _SYSTEM_MESSAGE,
    "thinking": "Use reasoning_effort, thinking_budget or include_thoughts.",
    "thinking_tokens": "Use thinking_budget.",
    "tool_choice": "Use bind_tools(tools, tool_choice=...).",
    "tool_config": "Use bind_tools(tools, tool_config=...).",
    "tools": "Use bind_tools.",
    "top_logprobs": "Use logprobs.",
    "transport": "Leave it out: requests always use REST. For an HTTP transport, use client_args.",
    "verify": "Use client_args={'verify': ...} on the model.",
}
"""Arguments of Google's SDKs and of other integrations, and what to use here."""


def unknown_option(name: str, known: Iterable[str]) -> str:
    """Return the message for an option that does not exist, with what may have been meant."""
    return f"ChatGemini has no option {name!r}.{_hint(name, known)}"


def _hint(given: str, known: Iterable[str]) -> str:
    name = snake(given)  # the API and other SDKs write camelCase
    if name in _REPLACEMENTS:
        return f" {_REPLACEMENTS[name]}"
    if is_builtin(name):
        return f' It is a tool: use bind_tools([{{"{name}": {{}}}}]).'
    nearest = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""


class PlainSignature:
    """The signature of a model's class, as `help` and notebooks show it: types without validation.

    Args:
        pydantics: Pydantic's descriptor, which makes the signature when it is needed.
    """

    def __init__(self, pydantics: Any) -> None:
        self._pydantics = pydantics

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        signature: inspect.Signature = self._pydantics.__get__(instance, owner)
        return signature.replace(
            parameters=[
                each.replace(annotation=get_args(each.annotation)[0])
                if get_origin(each.annotation) is Annotated
                else each
                for each in signature.parameters.values()
            ]
        )


def as_secret(name: str, value: Any) -> Any:
    """Wrap a key; pydantic does not validate assignments and copies."""
    return SecretStr(value) if name == "google_api_key" and isinstance(value, str) else value


def reveal(value: Any) -> Any:
    """Return the text of a secret; other values as they are."""
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def as_dict(value: Any) -> Any:
    """Return SDK types, alone or in a list, as dicts under Python's names."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    return [as_dict(each) for each in value] if isinstance(value, list) else value


def as_json(name: str, value: Any) -> Any:
    """Return the value of a field as JSON that the constructor accepts."""
    match name:
        case "response_schema" if value is not None and not isinstance(value, dict):
            return render_output_format({name: value})["responseJsonSchema"]
        case "model_kwargs" | "extra_body":
            return plain(value)
        case "fetch_urls" if isinstance(value, FetchLimits):
            return asdict(value)
    return value


def has_credential(name: str, value: Any) -> bool:
    """Return whether the value of a field contains a credential."""
    if not value:
        return False
    match name:
        case "google_api_key" | "credentials":
            return True
        case "additional_headers" | "default_metadata":
            return bool(private_values(dict(value)))
        case "client_args" | "async_client_args":
            proxy = value.get("proxy") or ""
            return (
                bool(value.keys() & _SECRET_ARGUMENTS) or "@" in str(proxy) or proxy != str(proxy)
            )
    return False


def check_credentials(given: Any) -> Any:
    """Reject a path or the content of a file in place of credentials, without showing it.

    Raises:
        ValueError: It is not an object of `google.auth`.
    """
    if isinstance(given, str | bytes | Path | dict):
        raise ValueError(  # noqa: TRY004 - Pydantic reports it
            f"credentials must be an object of google.auth, not {type(given).__name__}. For a "
            "service account file, use google.oauth2.service_account.Credentials"
            ".from_service_account_file(path, scopes=[...]), or set "
            "GOOGLE_APPLICATION_CREDENTIALS to its path."
        )
    return given


def same_option(key: str, other: str) -> str:
    """Return the error for two different values of one option, under two of its names."""
    return f"{key!r} and {other!r} are names of the same option. Pass only one of them."


def check_address(given: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    """Reject an address with credentials, which would be shown, and one without a scheme.

    Raises:
        ValueError: It is not a URL, or has no scheme, or a user name, a password or a query, or
            options that are not an address.
    """
    address = given
    if isinstance(address, dict):
        if others := address.keys() - {"api_endpoint", "base_url"}:
            raise ValueError(
                f"client_options supports only 'api_endpoint', not {', '.join(sorted(others))}. "
                "Use the arguments of ChatGemini, such as api_key."
            )
        address = address.get("api_endpoint") or address.get("base_url")
    try:
        parts = urlsplit(address or "")
    except ValueError as error:
        raise ValueError(f"base_url is not a valid URL: {error}.") from None
    if address and parts.scheme not in {"http", "https"}:
        raise ValueError(
            "base_url must start with 'https://' or 'http://', such as "
            "'https://gateway.example.com'."
        )
    if "@" in parts.netloc or parts.query:
        raise ValueError(
            "base_url must not contain a user, a password or a query, which logs and repr would "
            'show. Use additional_headers={"Authorization": "Basic ..."} instead.'
        )
    return given


def without_inputs(error: ValidationError) -> ValidationError:
    """Return the error without the values that were passed: the key may be among them.

    Numbers stay. They are not secrets, and they show what is wrong.
    """
    from pydantic_core import InitErrorDetails, PydanticCustomError

    details = [
        InitErrorDetails(
            type=PydanticCustomError(each["type"], each["msg"], _plain(each.get("ctx", {}))),
            loc=each["loc"],
            input=each["input"] if isinstance(each["input"], (int, float)) else "[not shown]",
        )
        for each in error.errors(include_url=False)
    ]
    return ValidationError.from_exception_data(error.title, details, hide_input=True)


def _plain(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits that an error names, without exceptions: their frames have the values."""
    return {name: each for name, each in context.items() if not isinstance(each, Exception)}
