"""Types of the REST API, with its spelling.

Import this module as `gemini`, so that `gemini.Part` cannot be confused with a type of LangChain.
Every TypedDict is open at run time: fields that the API has added are kept.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from langchain_gemini_tools.facts import json_values

JsonObject = json_values.JsonObject
JsonSchema = dict[str, Any]


class Blob(TypedDict):
    """Data in the body, as base64."""

    mimeType: str
    data: str
    displayName: NotRequired[str]


class FileData(TypedDict):
    """Data elsewhere, by URI."""

    fileUri: str
    mimeType: NotRequired[str]
    displayName: NotRequired[str]


class FunctionCall(TypedDict, total=False):
    """A call that the model requests. `partialArgs` and `willContinue` occur in Vertex streams."""

    id: str
    name: str
    args: JsonObject
    partialArgs: list[JsonObject]
    willContinue: bool


class FunctionResponse(TypedDict):
    """The response to one call: `response` contains `output` or `error`."""

    name: str
    response: JsonObject
    id: NotRequired[str]
    parts: NotRequired[list[Part]]


class Part(TypedDict, total=False):
    """One piece of a content; exactly one of the data fields is set."""

    text: str
    thought: bool
    thoughtSignature: str
    inlineData: Blob
    fileData: FileData
    functionCall: FunctionCall
    functionResponse: FunctionResponse
    executableCode: JsonObject
    codeExecutionResult: JsonObject
    toolCall: JsonObject
    toolResponse: JsonObject
    videoMetadata: JsonObject
    mediaResolution: JsonObject


class Content(TypedDict):
    """One turn's parts."""

    role: Literal["user", "model"]
    parts: list[Part]


class SystemInstruction(TypedDict):
    """The system text. It has no role."""

    parts: list[Part]


class FunctionDeclaration(TypedDict):
    """A function that the model may call."""

    name: str
    description: NotRequired[str]
    parametersJsonSchema: NotRequired[JsonSchema]
    parameters: NotRequired[JsonSchema]
    responseJsonSchema: NotRequired[JsonSchema]
    response: NotRequired[JsonSchema]


class FunctionCallingConfig(TypedDict, total=False):
    """Whether and what the model may call."""

    mode: str
    allowedFunctionNames: list[str]
    streamFunctionCallArguments: bool


class ToolConfig(TypedDict, total=False):
    """Settings for all tools of a request."""

    functionCallingConfig: FunctionCallingConfig
    includeServerSideToolInvocations: bool
    retrievalConfig: JsonObject


Tool = dict[str, Any]
"""`{"functionDeclarations": [...]}` or one built-in tool, such as `{"googleSearch": {}}`."""


class Request(TypedDict, total=False):
    """A whole request body."""

    contents: list[Content]
    systemInstruction: SystemInstruction
    tools: list[Tool]
    toolConfig: ToolConfig
    generationConfig: JsonObject
    safetySettings: list[JsonObject]
    cachedContent: str
    labels: dict[str, str]


Response = dict[str, Any]
"""A whole response, or one event of a stream, as the server sent it."""
