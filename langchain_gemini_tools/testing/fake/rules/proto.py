"""The fields of a request, as the API's protos declare them.

A kind is a scalar, an `enum`, another message, `Struct` or `Value` (free-form); `[]` marks a
repeated field and `{}` a map. ` @vertex` and ` @gemini` mark fields that one backend alone has.
https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Backend


class Field(NamedTuple):
    """The type of one field."""

    kind: str
    is_list: bool = False
    is_map: bool = False
    backend: str = ""


def _fields(**kinds: str) -> dict[str, Field]:
    return {name: _field(spec) for name, spec in kinds.items()}


def _field(spec: str) -> Field:
    kind, _, backend = spec.partition(" @")
    is_list, is_map = kind.startswith("[]"), kind.startswith("{}")
    return Field(kind.removeprefix("[]").removeprefix("{}"), is_list, is_map, backend)


ENUMS: dict[str, frozenset[str]] = {
    "FunctionCallingConfig.Mode": frozenset(
        {"MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"}
    ),
    "Type": frozenset(
        {
            "TYPE_UNSPECIFIED",
            "STRING",
            "NUMBER",
            "INTEGER",
            "BOOLEAN",
            "ARRAY",
            "OBJECT",
            "NULL",
        }
    ),
    "ThinkingConfig.ThinkingLevel": frozenset(
        {"THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH"}
    ),
    # Documented and in the SDK's types, in lower case; a wrong value is refused like every enum's.
    "ServiceTier": frozenset({"UNSPECIFIED", "FLEX", "STANDARD", "PRIORITY"}),
    # Reported for Vertex AI (python-genai, issue 2847): "flex" is a wrong value, SERVICE_TIER_FLEX
    # is accepted and has no effect.
    "ServiceTier@vertex": frozenset(
        f"SERVICE_TIER_{tier}" for tier in ("UNSPECIFIED", "FLEX", "STANDARD", "PRIORITY")
    ),
    "MediaResolution.Level": frozenset(
        {
            "MEDIA_RESOLUTION_UNSPECIFIED",
            "MEDIA_RESOLUTION_LOW",
            "MEDIA_RESOLUTION_MEDIUM",
            "MEDIA_RESOLUTION_HIGH",
            "MEDIA_RESOLUTION_ULTRA_HIGH",
        }
    ),
    "ExecutableCode.Language": frozenset({"LANGUAGE_UNSPECIFIED", "PYTHON"}),
    # Documented: those of PaLM come first, and Vertex AI has those about images and jailbreaks.
    "HarmCategory": frozenset(
        f"HARM_CATEGORY_{name}"
        for name in (
            *("DEROGATORY", "TOXICITY", "VIOLENCE", "SEXUAL", "MEDICAL", "DANGEROUS"),
            *("UNSPECIFIED", "HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT"),
            *("DANGEROUS_CONTENT", "CIVIC_INTEGRITY", "JAILBREAK", "IMAGE_HATE"),
            *("IMAGE_DANGEROUS_CONTENT", "IMAGE_HARASSMENT", "IMAGE_SEXUALLY_EXPLICIT"),
        )
    ),
    "SafetySetting.HarmBlockThreshold": frozenset(
        {
            "HARM_BLOCK_THRESHOLD_UNSPECIFIED",
            "BLOCK_LOW_AND_ABOVE",
            "BLOCK_MEDIUM_AND_ABOVE",
            "BLOCK_ONLY_HIGH",
            "BLOCK_NONE",
            "OFF",
        }
    ),
}

MESSAGES: dict[str, dict[str, Field]] = {
    "GenerateContentRequest": _fields(
        model="string",
        contents="[]Content",
        systemInstruction="Content",
        tools="[]Tool",
        toolConfig="ToolConfig",
        safetySettings="[]SafetySetting",
        generationConfig="GenerationConfig",
        cachedContent="string",
        continuationToken="bytes",
        serviceTier="enum:ServiceTier",
        store="bool @gemini",
        # The SDK sends it to both since 2.30; before, it refused it for the Developer API.
        labels="{}string",
        modelArmorConfig="Value @vertex",
    ),
    "Content": _fields(role="string", parts="[]Part"),
    "Part": _fields(
        text="string",
        inlineData="Blob",
        fileData="FileData",
        functionCall="FunctionCall",
        functionResponse="FunctionResponse",
        executableCode="ExecutableCode",
        codeExecutionResult="CodeExecutionResult",
        toolCall="ToolCall @gemini",
        toolResponse="ToolResponse @gemini",
        thought="bool",
        thoughtSignature="bytes",
        partMetadata="Struct @gemini",
        videoMetadata="VideoMetadata",
        mediaResolution="MediaResolution",
        mediaProcessing="name",
    ),
    "Blob": _fields(mimeType="string", data="bytes", displayName="string @vertex"),
    "FileData": _fields(mimeType="string", fileUri="string", displayName="string @vertex"),
    "MediaResolution": _fields(level="enum:MediaResolution.Level", numTokens="int"),
    "VideoMetadata": _fields(startOffset="string", endOffset="string", fps="number"),
    "FunctionCall": _fields(
        id="string",
        name="string",
        args="Struct",
        partialArgs="[]PartialArg @vertex",
        willContinue="bool @vertex",
    ),
    "PartialArg": _fields(
        jsonPath="string",
        stringValue="string",
        numberValue="number",
        boolValue="bool",
        nullValue="Value",
        willContinue="bool",
    ),
    "FunctionResponse": _fields(
        id="string",
        name="string",
        response="Struct",
        parts="[]FunctionResponsePart",
        willContinue="bool @gemini",
        scheduling="name @gemini",
    ),
    "FunctionResponsePart": _fields(
        inlineData="FunctionResponseBlob", fileData="FunctionResponseFileData"
    ),
    "FunctionResponseBlob": _fields(mimeType="string", data="bytes", displayName="string"),
    "FunctionResponseFileData": _fields(mimeType="string", fileUri="string", displayName="string"),
    "ExecutableCode": _fields(id="string", language="enum:ExecutableCode.Language", code="string"),
    "CodeExecutionResult": _fields(id="string", outcome="name", output="string"),
    "ToolCall": _fields(id="string", toolType="name", args="Struct"),
    "ToolResponse": _fields(id="string", toolType="name", response="Struct"),
    "Tool": _fields(
        functionDeclarations="[]FunctionDeclaration",
        googleSearch="GoogleSearch",
        googleSearchRetrieval="Value",
        codeExecution="Value",
        urlContext="Value",
        googleMaps="Value",
        computerUse="Value",
        fileSearch="Value @gemini",
        mcpServers="[]Value @gemini",
        retrieval="Value @vertex",
        enterpriseWebSearch="Value @vertex",
        parallelAiSearch="Value @vertex",
        exaAiSearch="Value @vertex",
    ),
    # From the SDK's converters, which refuse the fields of the other backend
    "GoogleSearch": _fields(
        timeRangeFilter="Value",
        searchTypes="Value",
        blockingConfidence="name @vertex",
        excludeDomains="[]string @vertex",
    ),
    "ImageConfig": _fields(
        aspectRatio="string",
        imageSize="string",
        personGeneration="name @vertex",
        prominentPeople="name @vertex",
        imageOutputOptions="Value @vertex",
    ),
    "FunctionDeclaration": _fields(
        name="string",
        description="string",
        parameters="Schema",
        parametersJsonSchema="Value",
        response="Schema",
        responseJsonSchema="Value",
        behavior="name @gemini",
    ),
    # `additionalProperties` is in the newest reference; older servers answer "Cannot find field",
    # and no recording shows it here. To be safe, it is not a field.
    "Schema": _fields(
        type="enum:Type",
        format="string",
        title="string",
        description="string",
        nullable="bool",
        enum="[]string",
        items="Schema",
        minItems="int",
        maxItems="int",
        properties="{}Schema",
        minProperties="int",
        maxProperties="int",
        required="[]string",
        propertyOrdering="[]string",
        minLength="int",
        maxLength="int",
        pattern="string",
        minimum="number",
        maximum="number",
        anyOf="[]Schema",
        default="Value",
        example="Value",
        ref="string @vertex",
        defs="{}Schema @vertex",
    ),
    "ToolConfig": _fields(
        functionCallingConfig="FunctionCallingConfig",
        retrievalConfig="Value",
        includeServerSideToolInvocations="bool @gemini",
    ),
    "FunctionCallingConfig": _fields(
        mode="enum:FunctionCallingConfig.Mode",
        allowedFunctionNames="[]string",
        streamFunctionCallArguments="bool @vertex",
    ),
    "SafetySetting": _fields(
        category="enum:HarmCategory",
        threshold="enum:SafetySetting.HarmBlockThreshold",
        method="name @vertex",
    ),
    "GenerationConfig": _fields(
        candidateCount="int",
        stopSequences="[]string",
        maxOutputTokens="int",
        temperature="number",
        topP="number",
        topK="number",
        seed="int",
        presencePenalty="number",
        frequencyPenalty="number",
        responseMimeType="string",
        responseSchema="Schema",
        responseJsonSchema="Value",
        responseFormat="Value",
        responseModalities="[]name",
        responseLogprobs="bool",
        logprobs="int",
        thinkingConfig="ThinkingConfig",
        mediaResolution="name",
        speechConfig="Value",
        imageConfig="ImageConfig",
        enableEnhancedCivicAnswers="bool @gemini",
        audioTimestamp="bool @vertex",
        routingConfig="Value @vertex",
        modelConfig="Value @vertex",
    ),
    "ThinkingConfig": _fields(
        includeThoughts="bool",
        thinkingBudget="int",
        thinkingLevel="enum:ThinkingConfig.ThinkingLevel",
    ),
    "CountTokensRequest": _fields(
        contents="[]Content",
        generateContentRequest="GenerateContentRequest @gemini",
        systemInstruction="Content @vertex",
        tools="[]Tool @vertex",
        generationConfig="GenerationConfig @vertex",
        model="string @vertex",
        instances="Value @vertex",
    ),
}

PART_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
"""The fields of a part's `data` oneof."""


@cache
def fields_of(message: str, backend: Backend) -> dict[str, Field]:
    """The fields that one backend knows in a message."""
    return {
        name: field for name, field in MESSAGES[message].items() if field.backend in ("", backend)
    }
