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
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from langchain_gemini_tools.testing.fake.ask import Backend, Model, find_model
from langchain_gemini_tools.testing.fake.responses import (
    BAD_REQUEST,
    ERROR_INFO,
    JsonObject,
    Refusal,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


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
    """Return the model of this name; `extra` names exist as well, with the newest behaviour."""
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


def read_payload(raw: bytes, **message: Any) -> JsonObject:
    """Return the request, keys in camelCase, without nulls; `message` as for `read_message`.

    Raises:
        Refusal: it is not JSON, or not of this message.
    """
    try:
        payload = json.loads(raw or b"{}", parse_constant=_refuse_constant)
    except ValueError as problem:
        raise Refusal(
            "Invalid JSON payload received. Expected a value.", why=str(problem)
        ) from problem
    return read_message(payload, **message)


def read_message(
    payload: Any,
    *,
    backend: Backend = "gemini",
    version: str = "v1beta",
    message: str = "GenerateContentRequest",
) -> JsonObject:
    """Return the parsed request, keys in camelCase, without nulls; see `read_payload`."""
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
        fields = _MESSAGES[self.backend][name]
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

    def _value(self, kind: _Field, value: Any, path: str, key: str) -> Any:
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

    def _single(self, kind: _Field, value: Any, path: str, key: str) -> Any:
        if kind.kind == "Value":
            return value
        if kind.kind == "Struct":
            if not isinstance(value, dict):
                self._wrong(path, "type.googleapis.com/google.protobuf.Struct", value)
            return value
        if kind.kind in _MESSAGES[self.backend]:
            if not isinstance(value, dict):
                self._wrong(path, self._type_url(kind.kind), value)
                return {}
            return self.message(kind.kind, value, path)
        if kind.kind in _ENUMS[self.backend]:
            return self._enum(kind.kind, value, path)
        return self._scalar(kind.kind, value, path)

    def _enum(self, enum: str, value: Any, path: str) -> Any:
        # Recorded: "any", "low", "object" pass, so case does not matter
        if isinstance(value, str) and value.upper() in _ENUMS[self.backend][enum]:
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
    """Return whether this is base64, in either alphabet, with or without padding."""
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
    """Return a name in camelCase."""
    head, *tail = key.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in tail)


# The fields of a request, as the API's protos declare them.

PART_DATA = (
    *("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode"),
    *("codeExecutionResult", "toolCall", "toolResponse"),
)
"""The fields of a part's `data` oneof."""

_PROTOS = """
message GenerateContentRequest {
  string model; repeated Content contents; Content systemInstruction; repeated Tool tools;
  ToolConfig toolConfig; repeated SafetySetting safetySettings; GenerationConfig generationConfig;
  string cachedContent; bytes continuationToken; ServiceTier serviceTier; gemini bool store;
  // The SDK sends labels to both since 2.30; before, it refused them for the Developer API.
  map string labels; vertex Value modelArmorConfig;
}
message CountTokensRequest {
  repeated Content contents; gemini GenerateContentRequest generateContentRequest;
  vertex Content systemInstruction; vertex repeated Tool tools; vertex string model;
  vertex GenerationConfig generationConfig; vertex Value instances;
}
message CachedContent {
  string name; string model; string displayName; repeated Content contents; repeated Tool tools;
  Content systemInstruction; ToolConfig toolConfig; string ttl; string expireTime;
  vertex Value encryptionSpec; }
message BatchGenerateContentRequest { GenerateContentBatch batch; }
message GenerateContentBatch { string model; string displayName; InputConfig inputConfig;
  Value webhookConfig; Value priority; }
message InputConfig { InlinedRequests requests; string fileName; }
message InlinedRequests { repeated InlinedRequest requests; }
message InlinedRequest { Value request; Value metadata; }
message Content { string role; repeated Part parts; }
message Part {
  string text; Blob inlineData; FileData fileData; FunctionCall functionCall;
  FunctionResponse functionResponse; ExecutableCode executableCode;
  CodeExecutionResult codeExecutionResult; gemini ToolCall toolCall;
  gemini ToolResponse toolResponse; bool thought; bytes thoughtSignature;
  gemini Struct partMetadata; VideoMetadata videoMetadata; MediaResolution mediaResolution;
  name mediaProcessing;
}
message Blob { string mimeType; bytes data; vertex string displayName; }
message FileData { string mimeType; string fileUri; vertex string displayName; }
message MediaResolution { MediaResolution.Level level; int numTokens; }
message VideoMetadata { string startOffset; string endOffset; number fps; }
message FunctionCall {
  string id; string name; Struct args; vertex repeated PartialArg partialArgs;
  vertex bool willContinue;
}
message PartialArg {
  string jsonPath; string stringValue; number numberValue; bool boolValue; Value nullValue;
  bool willContinue;
}
message FunctionResponse {
  string id; string name; Struct response; repeated FunctionResponsePart parts;
  gemini bool willContinue; gemini name scheduling;
}
message FunctionResponsePart { FunctionResponseBlob inlineData; FunctionResponseFileData fileData; }
message FunctionResponseBlob { string mimeType; bytes data; string displayName; }
message FunctionResponseFileData { string mimeType; string fileUri; string displayName; }
message ExecutableCode { string id; ExecutableCode.Language language; string code; }
message CodeExecutionResult { string id; name outcome; string output; }
message ToolCall { string id; name toolType; Struct args; }
message ToolResponse { string id; name toolType; Struct response; }
message Tool {
  repeated FunctionDeclaration functionDeclarations; GoogleSearch googleSearch;
  Value googleSearchRetrieval; Value codeExecution; Value urlContext; Value googleMaps;
  Value computerUse; gemini Value fileSearch; gemini repeated Value mcpServers;
  vertex Value retrieval; vertex Value enterpriseWebSearch; vertex Value parallelAiSearch;
  vertex Value exaAiSearch;
}
// From the SDK's converters, which refuse the fields of the other backend
message GoogleSearch {
  Value timeRangeFilter; Value searchTypes; vertex name blockingConfidence;
  vertex repeated string excludeDomains;
}
message ImageConfig {
  string aspectRatio; string imageSize; vertex name personGeneration; vertex name prominentPeople;
  vertex Value imageOutputOptions;
}
message FunctionDeclaration {
  string name; string description; Schema parameters; Value parametersJsonSchema; Schema response;
  Value responseJsonSchema; gemini name behavior;
}
// `additionalProperties` is in the newest reference; older servers answer "Cannot find field", and
// no recording shows it here. To be safe, it is not a field.
message Schema {
  Type type; string format; string title; string description; bool nullable; repeated string enum;
  Schema items; int minItems; int maxItems; map Schema properties; int minProperties;
  int maxProperties; repeated string required; repeated string propertyOrdering; int minLength;
  int maxLength; string pattern; number minimum; number maximum; repeated Schema anyOf;
  Value default; Value example; vertex string ref; vertex map Schema defs;
}
message ToolConfig {
  FunctionCallingConfig functionCallingConfig; Value retrievalConfig;
  gemini bool includeServerSideToolInvocations;
}
message FunctionCallingConfig {
  FunctionCallingConfig.Mode mode; repeated string allowedFunctionNames;
  vertex bool streamFunctionCallArguments;
}
message SafetySetting {
  HarmCategory category; SafetySetting.HarmBlockThreshold threshold; vertex name method;
}
message GenerationConfig {
  int candidateCount; repeated string stopSequences; int maxOutputTokens; number temperature;
  number topP; number topK; int seed; number presencePenalty; number frequencyPenalty;
  string responseMimeType; Schema responseSchema; Value responseJsonSchema; Value responseFormat;
  repeated name responseModalities; bool responseLogprobs; int logprobs;
  ThinkingConfig thinkingConfig; name mediaResolution; Value speechConfig; ImageConfig imageConfig;
  gemini bool enableEnhancedCivicAnswers; vertex bool audioTimestamp; vertex Value routingConfig;
  vertex Value modelConfig;
}
message ThinkingConfig {
  bool includeThoughts; int thinkingBudget; ThinkingConfig.ThinkingLevel thinkingLevel;
}
enum FunctionCallingConfig.Mode { MODE_UNSPECIFIED AUTO ANY NONE VALIDATED }
enum Type { TYPE_UNSPECIFIED STRING NUMBER INTEGER BOOLEAN ARRAY OBJECT NULL }
enum ThinkingConfig.ThinkingLevel { THINKING_LEVEL_UNSPECIFIED MINIMAL LOW MEDIUM HIGH }
enum ExecutableCode.Language { LANGUAGE_UNSPECIFIED PYTHON }
// Documented and in the SDK's types, in lower case; a wrong value is refused like every enum's.
enum ServiceTier { UNSPECIFIED FLEX STANDARD PRIORITY }
// Reported (python-genai, issue 2847): "flex" is a wrong value, SERVICE_TIER_FLEX is accepted and
// has no effect.
vertex enum ServiceTier {
  SERVICE_TIER_UNSPECIFIED SERVICE_TIER_FLEX SERVICE_TIER_STANDARD SERVICE_TIER_PRIORITY
}
enum MediaResolution.Level {
  MEDIA_RESOLUTION_UNSPECIFIED MEDIA_RESOLUTION_LOW MEDIA_RESOLUTION_MEDIUM MEDIA_RESOLUTION_HIGH
  MEDIA_RESOLUTION_ULTRA_HIGH
}
// Documented: those of PaLM come first, and Vertex AI has those about images and jailbreaks.
enum HarmCategory {
  HARM_CATEGORY_DEROGATORY HARM_CATEGORY_TOXICITY HARM_CATEGORY_VIOLENCE HARM_CATEGORY_SEXUAL
  HARM_CATEGORY_MEDICAL HARM_CATEGORY_DANGEROUS HARM_CATEGORY_UNSPECIFIED HARM_CATEGORY_HARASSMENT
  HARM_CATEGORY_HATE_SPEECH HARM_CATEGORY_SEXUALLY_EXPLICIT HARM_CATEGORY_DANGEROUS_CONTENT
  HARM_CATEGORY_CIVIC_INTEGRITY HARM_CATEGORY_JAILBREAK HARM_CATEGORY_IMAGE_HATE
  HARM_CATEGORY_IMAGE_DANGEROUS_CONTENT HARM_CATEGORY_IMAGE_HARASSMENT
  HARM_CATEGORY_IMAGE_SEXUALLY_EXPLICIT
}
enum SafetySetting.HarmBlockThreshold {
  HARM_BLOCK_THRESHOLD_UNSPECIFIED BLOCK_LOW_AND_ABOVE BLOCK_MEDIUM_AND_ABOVE BLOCK_ONLY_HIGH
  BLOCK_NONE OFF
}
"""
"""https://ai.google.dev/api/generate-content, in the language of protos, with these additions:
`gemini` and `vertex` mark what one backend alone has. `Struct` and `Value` are free-form, and a
`name` is an enum whose values are not checked.
"""


class _Field(NamedTuple):
    """The type of one field."""

    kind: str
    is_list: bool = False
    is_map: bool = False


def _read_protos(what: str, backend: Backend) -> dict[str, str]:
    """Return each message or enum that a backend has, and what is between its braces."""
    text = re.sub(r"//.*", "", _PROTOS)
    found = re.findall(rf"^(\w+ )?{what} (\S+) {{(.*?)}}", text, re.DOTALL | re.MULTILINE)
    return {name: inside for only, name, inside in found if only.strip() in ("", backend)}


def _read_fields(inside: str, backend: Backend) -> dict[str, _Field]:
    found = re.findall(r"(?:(gemini|vertex) )?(?:(repeated|map) )?(\S+) (\w+);", inside)
    return {
        name: _Field(kind, is_list=label == "repeated", is_map=label == "map")
        for only, label, kind, name in found
        if only in ("", backend)
    }


_BACKENDS = get_args(Backend)
_MESSAGES: dict[Backend, dict[str, dict[str, _Field]]] = {
    backend: {
        name: _read_fields(inside, backend)
        for name, inside in _read_protos("message", backend).items()
    }
    for backend in _BACKENDS
}
_ENUMS: dict[Backend, dict[str, list[str]]] = {
    backend: {name: inside.split() for name, inside in _read_protos("enum", backend).items()}
    for backend in _BACKENDS
}
