"""The first checks of a request: credentials, deadline, model, then its JSON against the protos.

Keys may be camelCase or snake_case, also mixed; the result is camelCase. Free-form values (`args`,
`response`, JSON Schemas) pass unchanged. All violations are reported at once, as by the API.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.ask import Backend, Model, find_model
from langchain_gemini_tools.testing.fake.responses import (
    BAD_REQUEST,
    ERROR_INFO,
    JsonObject,
    Refusal,
)
from langchain_gemini_tools.testing.fake.rules.proto import (
    ENUMS,
    MESSAGES,
    PART_DATA,
    Field,
    fields_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from langchain_gemini_tools.testing.fake.ask import Backend


_BEARER = re.compile(r"Bearer (\S+)")


def check_key(
    headers: Mapping[str, str],
    query: Mapping[str, str],
    backend: Backend,
    key: str | None,
    token: str | None,
) -> None:
    """Check the key, or on Vertex the token; with None, any key or token is valid.

    Raises:
        Refusal: 403 without credentials, 400 with a bad key (not 401), 401 with a bad token.
    """
    given = headers.get("x-goog-api-key") or query.get("key")
    bearer = _BEARER.fullmatch(headers.get("authorization", ""))
    if given is None and bearer is None:
        raise Refusal(
            "Method doesn't allow unregistered callers (callers without established identity). "
            "Please use API Key or other form of API consumer identity to call this API.",
            403,
        )
    if given is not None:
        if key is not None and given != key:
            raise _invalid_key(backend)
    elif token is not None and bearer is not None and bearer[1] != token:
        raise Refusal(
            "Request had invalid authentication credentials. Expected OAuth 2 access token, "
            "login cookie or other valid authentication credential. "
            "See https://developers.google.com/identity/sign-in/web/devconsole-project.",
            401,
        )


def _invalid_key(backend: Backend) -> Refusal:
    service = {"gemini": "generativelanguage", "vertex": "aiplatform"}[backend]
    message = "API key not valid. Please pass a valid API key."
    info = {
        "@type": ERROR_INFO,
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": f"{service}.googleapis.com"},
    }
    localized = {
        "@type": "type.googleapis.com/google.rpc.LocalizedMessage",
        "locale": "en-US",
        "message": message,
    }
    return Refusal(message, details=[info, localized])


def check_deadline(headers: Mapping[str, str]) -> None:
    """Refuse an `X-Server-Timeout` under ten seconds."""
    given = headers.get("x-server-timeout")
    if given is None:
        return
    try:
        seconds = float(given)
    except ValueError:
        raise Refusal(f'Invalid value for header X-Server-Timeout: "{given}"') from None
    if seconds < 10:
        raise Refusal(
            f"Manually set deadline {seconds:g}s is too short. Minimum allowed deadline is 10s."
        )


def check_length(tokens: int, limit: int) -> None:
    """Refuse a prompt that does not fit into the model's context."""
    if tokens > limit:
        raise Refusal(
            f"The input token count ({tokens}) exceeds the maximum number of tokens allowed "
            f"({limit})."
        )


def check_model(
    name: str, version: str, backend: Backend, method: str, extra: Collection[str] = ()
) -> Model:
    """The model of this name; `extra` names exist as well, with the newest behaviour."""
    if model := find_model(name, version):
        return model
    if name in extra:
        return Model(name)
    if backend == "vertex":
        raise Refusal(
            f"Publisher Model `projects/P/locations/L/publishers/google/models/{name}` was not "
            "found or your project does not have access to it. Please ensure you are using a valid "
            "model version. For more information, see: https://cloud.google.com/vertex-ai/"
            "generative-ai/docs/learn/model-versions",
            404,
        )
    raise Refusal(
        f"models/{name} is not found for API version {version}, or is not supported for {method}. "
        "Call ModelService.ListModels to see the list of available models and their supported "
        "methods.",
        404,
        evidence="recorded",
    )


_PACKAGES = {"gemini": "google.ai.generativelanguage", "vertex": "google.cloud.aiplatform"}
_SCALARS: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "TYPE_STRING"),
    "name": ((str, int), "TYPE_ENUM"),
    "bool": ((bool,), "TYPE_BOOL"),
    "int": ((int, float, str), "TYPE_INT32"),
    "number": ((int, float, str), "TYPE_FLOAT"),
    "bytes": ((str,), "TYPE_BYTES"),
}


def read_payload(
    raw: bytes,
    *,
    backend: Backend = "gemini",
    version: str = "v1beta",
    message: str = "GenerateContentRequest",
) -> JsonObject:
    """The request, keys in camelCase, without nulls.

    Raises:
        Refusal: it is not JSON, or not of this message.
    """
    try:
        payload = json.loads(raw or b"{}", parse_constant=_refuse_constant)
    except ValueError as problem:
        raise Refusal(
            "Invalid JSON payload received. Expected a value.", why=str(problem)
        ) from problem
    return read_message(payload, backend=backend, version=version, message=message)


def read_message(
    payload: Any,
    *,
    backend: Backend = "gemini",
    version: str = "v1beta",
    message: str = "GenerateContentRequest",
) -> JsonObject:
    """The parsed request, keys in camelCase, without nulls; see `read_payload`."""
    if not isinstance(payload, dict):
        raise Refusal(
            'Invalid JSON payload received. Unknown name "": Root element must be a message.'
        )
    reader = _Reader(backend, version)
    body = reader.message(message, payload, "")
    if reader.violations:
        raise Refusal(
            "\n".join(violation["description"] for violation in reader.violations),
            details=[{"@type": BAD_REQUEST, "fieldViolations": reader.violations}],
        )
    return body


@dataclass
class _Reader:
    """Reads one request and collects its violations."""

    backend: Backend
    version: str
    violations: list[dict[str, str]] = field(default_factory=list)

    def message(self, name: str, value: JsonObject, path: str) -> JsonObject:
        fields = fields_of(name, self.backend)
        known: JsonObject = {}
        for key, item in value.items():
            spelled = key if key in fields else camel(key)
            if spelled not in fields:
                self._refuse(path, f"{_unknown(key, path)}: Cannot find field.")
            elif item is not None:
                known[spelled] = self._value(fields[spelled], item, _join(path, spelled), key)
        if name == "Part":
            self._check_oneof(known, path)
        return known

    def _value(self, kind: Field, value: Any, path: str, key: str) -> Any:
        if kind.is_list:
            # protojson accepts a single value as a list of one; curl examples do that with parts
            items = value if isinstance(value, list) else [value]
            return [self._single(kind, item, f"{path}[{n}]", key) for n, item in enumerate(items)]
        if isinstance(value, list) and kind.kind != "Value":
            parent = path.rpartition(".")[0]
            self._refuse(
                parent,
                f"{_unknown(key, parent)}: Proto field is not repeating, cannot start list.",
            )
            return value
        if kind.is_map:
            if not isinstance(value, dict):
                self._wrong(path, "Map", value)
                return {}
            return {
                name: self._single(kind, item, f"{path}[{n}].value", name)
                for n, (name, item) in enumerate(value.items())
            }
        return self._single(kind, value, path, key)

    def _single(self, kind: Field, value: Any, path: str, key: str) -> Any:
        if kind.kind == "Value":
            return value
        if kind.kind == "Struct":
            if not isinstance(value, dict):
                self._wrong(path, "type.googleapis.com/google.protobuf.Struct", value)
            return value
        if kind.kind in MESSAGES:
            if not isinstance(value, dict):
                self._wrong(path, self._type_url(kind.kind), value)
                return {}
            return self.message(kind.kind, value, path)
        if enum := kind.kind.partition("enum:")[2]:
            return self._enum(enum, value, path)
        return self._scalar(kind.kind, value, path)

    def _enum(self, enum: str, value: Any, path: str) -> Any:
        # Recorded: "any", "low", "object" pass, so case does not matter
        values = ENUMS.get(f"{enum}@{self.backend}", ENUMS[enum])
        if isinstance(value, str) and value.upper() in values:
            return value.upper()
        self._wrong(path, self._type_url(enum), value)
        return value

    def _scalar(self, kind: str, value: Any, path: str) -> Any:
        classes, proto_type = _SCALARS[kind]
        if not isinstance(value, classes) or (isinstance(value, bool) and bool not in classes):
            self._wrong(path, proto_type, value)
            return value
        if kind == "bytes" and not _is_base64(str(value)):
            self._refuse(
                path,
                f"Invalid value at '{path}' ({proto_type}), Base64 decoding failed for \"{value}\"",
            )
        if kind in ("int", "number") and isinstance(value, str):
            try:
                return int(value) if kind == "int" else float(value)
            except ValueError:
                self._wrong(path, proto_type, value)
        if kind == "int" and isinstance(value, float) and not value.is_integer():
            self._wrong(path, proto_type, value)
        return value

    def _check_oneof(self, part: JsonObject, path: str) -> None:
        data = [name for name in part if name in PART_DATA]
        for name in data[1:]:
            self._refuse(
                path,
                f"Invalid value at '{path}' (oneof), oneof field 'data' is already set. "
                f"Cannot set '{name}'",
            )

    def _wrong(self, path: str, proto_type: str, value: Any) -> None:
        shown = json.dumps(value, ensure_ascii=False)
        self._refuse(path, f"Invalid value at '{path}' ({proto_type}), {shown}")

    def _refuse(self, path: str, description: str) -> None:
        violation = {"field": path} if path else {}
        self.violations.append(violation | {"description": description})

    def _type_url(self, name: str) -> str:
        return f"type.googleapis.com/{_PACKAGES[self.backend]}.{self.version}.{name}"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _is_base64(value: str) -> bool:
    """Both alphabets, with or without padding."""
    standard = value.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _unknown(key: str, path: str) -> str:
    where = f" at '{path}'" if path else ""
    return f'Invalid JSON payload received. Unknown name "{key}"{where}'


def _join(path: str, camel: str) -> str:
    snake = re.sub(r"([A-Z])", lambda upper: "_" + upper[1].lower(), camel)
    return f"{path}.{snake}" if path else snake


def camel(key: str) -> str:
    """A name in camelCase."""
    head, *tail = key.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in tail)
