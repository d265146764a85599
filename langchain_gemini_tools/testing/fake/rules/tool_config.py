"""`toolConfig` and which tools may stand together, by model and backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_gemini_tools.testing.fake.refusal import Refusal, invalid, invalid_request

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.ask import Ask

_SEARCHES = {
    "googleSearch",
    "googleSearchRetrieval",
    "enterpriseWebSearch",
    "retrieval",
    "parallelAiSearch",
    "exaAiSearch",
    "googleMaps",
    "urlContext",
}


def check_tools(ask: Ask) -> None:
    """Refuse tools that are empty or do not go together."""
    for number, tool in enumerate(ask.body.get("tools", [])):
        if not any(value or value == {} for value in tool.values()):
            raise invalid_request(
                (
                    f"tools[{number}].tool_type",
                    "required one_of 'tool_type' must have one initialized field",
                )
            )
    check_cached_content(ask)
    # Computer use is run by the client, beside functions of its own
    if set(ask.builtin_tools) - {"computerUse"} and ask.declarations:
        _check_mixed_tools(ask)
    if ask.is_json and not ask.model.is_3:
        mime_type = "with a response mime type: 'application/json' is unsupported"
        if ask.declarations:
            raise Refusal(f"Function calling {mime_type}")
        if ask.builtin_tools:
            raise Refusal(f"Tool use {mime_type}")


def _check_mixed_tools(ask: Ask) -> None:
    if ask.backend == "vertex":
        # Recorded on 3+: googleSearch beside functions, without any flag
        if not ask.model.is_3:
            raise Refusal("Multiple tools are supported only when they are all search tools.")
    elif not ask.model.is_3:
        if ask.body.get("toolConfig", {}).get("includeServerSideToolInvocations"):
            raise Refusal(f"Tool call context circulation is not enabled for {ask.model.resource}")
        raise Refusal("Tool use with function calling is unsupported")
    elif not ask.body.get("toolConfig", {}).get("includeServerSideToolInvocations"):
        raise Refusal(
            "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools "
            "with Function calling."
        )


def check_cached_content(ask: Ask) -> None:
    """Refuse beside a cache what has to be inside of it."""
    taken = [key for key in ("tools", "toolConfig", "systemInstruction") if ask.body.get(key)]
    if not ask.body.get("cachedContent") or not taken:
        return
    if ask.backend == "gemini":
        # Recorded and reported live
        raise Refusal(
            "CachedContent can not be used with GenerateContent request setting "
            "system_instruction, tools or tool_config.\n\nProposed fix: move those values to "
            "CachedContent from GenerateContent request."
        )
    # Documented
    raise Refusal(
        "Tool config, tools and system instruction should not be set in the request when using "
        "cached content."
    )


def check_tool_config(ask: Ask) -> None:
    """Refuse a `toolConfig` that says what cannot be."""
    config = ask.body.get("toolConfig", {})
    if config.get("includeServerSideToolInvocations") and not ask.model.is_3:
        raise Refusal(f"Tool call context circulation is not enabled for {ask.model.resource}")
    calling = ask.calling_config
    if not calling:
        return
    if not ask.declarations and not ask.builtin_tools:
        # Recorded: beside a built-in tool alone, mode AUTO is taken
        raise Refusal("Function calling config is set without function_declarations.")
    mode = calling.get("mode", "MODE_UNSPECIFIED")
    if mode == "VALIDATED" and ask.model.generation < (2, 5):
        raise invalid("VALIDATED came with Gemini 2.5")
    if "allowedFunctionNames" not in calling:
        return
    allowed = calling["allowedFunctionNames"]
    if mode not in ("ANY", "VALIDATED"):
        raise invalid(
            f"allowedFunctionNames go with ANY or VALIDATED, not with {mode}", evidence="documented"
        )
    if not allowed:
        raise invalid("allowedFunctionNames is empty: any function, or none? Never send it")
    declared = {declaration["name"] for declaration in ask.declarations}
    if unknown := [name for name in allowed if name not in declared]:
        raise invalid(
            f"allowedFunctionNames that are not declared: {', '.join(unknown)}",
            evidence="documented",
        )
