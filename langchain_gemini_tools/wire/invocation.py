"""`Invocation`: everything about one use of the model except its messages.

`options.py` joins the constructor, `model_kwargs`, bound options and the call. `resolve_invocation`
decides what they mean for the model, once per invocation. From there on the result travels with the
request, and no other module reads an option again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.facts.credentials import PrivateHeaders
from langchain_gemini_tools.facts.models import capabilities_of
from langchain_gemini_tools.wire.generation import SAMPLING
from langchain_gemini_tools.wire.rejections import check_tools
from langchain_gemini_tools.wire.tools.bind import bind_tools
from langchain_gemini_tools.wire.tools.choice import ToolChoice, resolve_tool_choice
from langchain_gemini_tools.wire.tools.tool import BEST_FORM, BoundTools

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from langchain_gemini_tools.facts.models import Capabilities
    from langchain_gemini_tools.wire.tools.tool import SchemaForm


ToolChoiceOption = (
    Literal["auto", "any", "required", "none", "validated"]  # noqa: PYI051 - editors complete them
    | str
    | bool
    | Sequence[str]
    | Mapping[str, Any]
    | BaseModel
    | None
)
"""What `tool_choice` accepts: a mode, names of tools, or a dict in the form of a vendor."""


@dataclass(frozen=True, kw_only=True)
class FetchLimits:
    """What `fetch_urls` may download. The limits apply to all files of one request together."""

    max_bytes: int = 20_000_000
    """The size of all files together."""
    timeout_seconds: float = 20.0
    """The time for all files together."""
    max_redirects: int = 3
    """How many redirects are followed for each file; each address is checked."""
    allow_http: bool = False
    """Allow `http://`, which can be read and changed in transit."""
    allow_hosts: Sequence[str] = ()
    """Hosts that are allowed even if they are private, on every port and without a check."""

    def __post_init__(self) -> None:
        if isinstance(self.allow_hosts, str):
            raise InvalidOptionError(
                f"allow_hosts must be a list: use allow_hosts=[{self.allow_hosts!r}]."
            )
        object.__setattr__(self, "allow_hosts", tuple(self.allow_hosts))


@dataclass(frozen=True, kw_only=True)
class InteractionOptions:
    """How a call uses the Interactions API."""

    store: bool = False
    """Let the API keep the interaction."""
    uses_previous: bool = False
    """Send only what is new, if the API has kept the rest."""
    is_stream: bool = False
    is_agent: bool = False
    """The name is that of an agent."""
    background: bool = False
    """Start it in the background, and read it until it has ended."""
    interaction_id: str | None = None
    """Read this one, which has been started, instead of starting one."""
    background_timeout_seconds: float | None = None

    @property
    def is_background(self) -> bool:
        """Whether the interaction has to be read again until it has ended."""
        return self.background or self.interaction_id is not None


@dataclass(frozen=True)
class CacheContents:
    """What a context cache contains."""

    name: str
    tools: BoundTools = field(default_factory=BoundTools)
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """`systemInstruction`, `tools` and `toolConfig` as they were sent."""
    messages: tuple[BaseMessage, ...] = field(default=(), repr=False)
    """Without system messages."""
    model: str = ""
    """The only model that can use the cache."""


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """The resolved options of one use of the model."""

    model: str
    capabilities: Capabilities
    vertexai: bool = False
    interaction: InteractionOptions | None = None
    """Set for the Interactions API; `None` for generateContent."""

    tools: BoundTools = field(default_factory=BoundTools)
    """Bound and checked."""
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    schema_form: SchemaForm = "json_schema"
    """How schemas of tools are sent."""
    is_prompted: bool = False
    """Describe functions in the prompt instead of declaring them to the API."""
    tool_prompt: str | None = None
    """The user's template for prompted tools."""

    generation: Mapping[str, Any] = field(default_factory=dict)
    """Sampling, output format and thinking; see `generation.py`."""
    ignored: tuple[str, ...] = ()
    """Options of it that are set, have no effect on the model and are not sent."""
    safety_settings: Any = None
    cached_content: str | None = None
    cache: CacheContents | None = None
    """What `cached_content` contains, if it is known."""
    continuation_token: str | None = None
    """From the metadata of a response that ended with CONTINUATION: continue that response."""
    continues_automatically: bool = True
    """Send further requests if a response ends with CONTINUATION."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """Options that are fields of the body, in the spelling of the wire."""
    extra_body: Mapping[str, Any] | None = None
    """Fields that this package does not know, merged into the body."""

    merges_system: bool = False
    """Send system messages as the first user text."""
    repairs_history: bool = True
    returns_failures: bool = False
    """Return malformed responses instead of raising."""
    rejects_empty: bool = False
    """Raise if a response is complete but empty, instead of marking it."""
    streams_arguments: bool = False
    """The response is a stream, in which tool calls may arrive in pieces."""
    streams_blocks: bool = False
    """Core translates each chunk of a stream into content blocks."""
    retries_with_feedback: bool = False
    """Send a malformed response back once, with a description of what was wrong."""

    fetch_limits: FetchLimits | None = None
    """Limits for downloading media that messages name by URL; `None` downloads nothing."""
    headers: PrivateHeaders | None = None
    """Headers of this call, in addition to the model's."""
    tier_headers: Mapping[str, str] = field(default_factory=dict)
    """The service tier, as Vertex AI reads it."""
    timeout_seconds: float | None = None
    stream_timeout_seconds: float | None = None
    max_retries: int = 0
    max_retry_delay_seconds: float = 60.0

    @property
    def sent_headers(self) -> PrivateHeaders | None:
        """All headers of the request, which replace the model's. Those of the call replace ours."""
        if not self.tier_headers:
            return self.headers
        return PrivateHeaders({**self.tier_headers, **(self.headers or {})})

    @property
    def circulates_server_tools(self) -> bool:
        """Whether the parts that server-side tools produced may be sent back."""
        is_supported = self.capabilities.combines_builtin_tools_with_functions
        return is_supported and not self.vertexai and self.interaction is None


def resolve_invocation(
    given: Mapping[str, Any],
    *,
    generation: Mapping[str, Any],
    body: Mapping[str, Any],
    vertexai: bool,
    cache: CacheContents | None,
) -> Invocation:
    """Decide what the options of a call mean for its model.

    Args:
        given: The options of all levels, under the names of their fields.
        generation: Those of them that are part of generationConfig.
        body: Those of them that are fields of the body, in the spelling of the wire.
        vertexai: Whether the request goes to Vertex AI.
        cache: What the context cache contains, if it is known.

    Raises:
        InvalidOptionError: Options contradict each other, or the model does not support one.
        InvalidToolError: A tool cannot be declared to Gemini.
    """
    model = given["model"]
    if vertexai:
        model = model.removeprefix("models/")  # there it would name a model of the project
    capabilities = capabilities_of(given["model_family"] or model)
    interaction = _resolve_interaction(given)
    if interaction:
        capabilities = capabilities.on_interactions()
    prompted = is_prompted(given["tool_calling"], capabilities)
    accepted = capabilities.prompted() if prompted else capabilities
    backend = None if interaction else vertexai
    tools, choice = _resolve_tools(given, cache, accepted, vertexai=backend)
    tier = body.get("serviceTier") if backend else None
    return Invocation(
        model=model,
        capabilities=capabilities,
        vertexai=vertexai,
        interaction=interaction,
        tools=tools,
        tool_choice=choice,
        schema_form=given["tool_schema"] or BEST_FORM[capabilities.accepts_json_schema],
        is_prompted=prompted,
        cache=cache,
        timeout_seconds=given.get("timeout", capabilities.timeout_seconds),
        **_resolve_failures(given, has_tools=bool(tools)),
        **_resolve_others(given),
        generation=generation,
        ignored=_find_ignored(generation) if capabilities.ignores_sampling else (),
        body={key: value for key, value in body.items() if not (tier and key == "serviceTier")},
        tier_headers={_TIER_HEADER: tier} if tier in _TIERS_OF_VERTEX else {},
        streams_blocks=given["output_version"] == "v1" and not prompted,
    )


_TIER_HEADER = "X-Vertex-AI-LLM-Shared-Request-Type"
_TIERS_OF_VERTEX = ("flex", "priority")
"""Sent in a header. In the body, Vertex AI rejects them, or ignores them: python-genai issue 2847.
Without the header, the tier is `standard`."""


def _find_ignored(generation: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in SAMPLING if generation.get(name) is not None)


def _resolve_others(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what does not depend on the model."""
    fetches = given["fetch_urls"]
    return {
        "tool_prompt": given["tool_prompt"],
        "safety_settings": given["safety_settings"],
        "cached_content": given["cached_content"],
        "continuation_token": given.get("continuation_token"),
        "continues_automatically": given["automatic_continuation"],
        "headers": given.get("additional_headers"),
        "extra_body": given["extra_body"],
        "merges_system": given["convert_system_message_to_human"],
        "repairs_history": given["on_broken_history"] == "repair",
        "fetch_limits": FetchLimits() if fetches is True else fetches or None,
        "stream_timeout_seconds": given["stream_timeout"],
        "max_retries": given["max_retries"],
        "max_retry_delay_seconds": given["max_retry_delay"],
    }


def _resolve_failures(given: Mapping[str, Any], *, has_tools: bool) -> dict[str, Any]:
    """Return what happens to a response that cannot be used."""
    on_malformed = given["on_malformed"]
    # The rest of a response may be empty, and its token is valid for the same request only.
    continues = given.get("continuation_token")
    is_read_again = continues or given.get("interaction_id")
    retries = on_malformed == "retry" and given["max_retries"] > 0 and not is_read_again
    # An agent would take an empty response for the end of its work.
    rejects_empty = on_malformed == "raise" or retries or (has_tools and on_malformed != "return")
    return {
        "returns_failures": on_malformed == "return",
        "rejects_empty": rejects_empty and not continues,
        "retries_with_feedback": retries,
    }


_STORING = ("use_previous_interaction", "background", "agent", "interaction_id")
"""Options that work only with interactions that the API keeps."""

_INTERACTION_ID = re.compile(r"[\w.~=-]+", re.ASCII)
"""What may stand in a path as it is."""


def _resolve_interaction(given: Mapping[str, Any]) -> InteractionOptions | None:
    """Return the options of the Interactions API; `None` if the call does not use it."""
    store = given["store"]
    storing = [name for name in _STORING if given.get(name)]
    if given["api"] != "interactions":
        if store is not None or storing:
            name = [*storing, "store"][0]
            raise InvalidOptionError(f"{name} needs api='interactions'. Set it, or omit {name}.")
        return None
    if storing and store is False:
        raise InvalidOptionError(
            f"{storing[0]}={given[storing[0]]!r} needs interactions that are kept, but store is "
            "False. Omit one of them."
        )
    known = given.get("interaction_id")
    if known is not None and not (isinstance(known, str) and _INTERACTION_ID.fullmatch(known)):
        raise InvalidOptionError(
            f"interaction_id={known!r} is not the id of an interaction. Use the one in the log, in "
            "the note of an error, or in response_metadata['interaction_id']."
        )
    return InteractionOptions(
        store=bool(store or storing),
        uses_previous=given["use_previous_interaction"],
        is_agent=given["agent"],
        background=bool(given["background"] or given["agent"]),
        interaction_id=known,
        background_timeout_seconds=given["background_timeout"],
    )


def is_prompted(way: str | None, capabilities: Capabilities) -> bool:
    """Return whether functions are described in the prompt instead of declared to the API.

    Args:
        way: The option `tool_calling`.
        capabilities: What the model supports.
    """
    if way in {"auto", None}:
        return not capabilities.calls_functions and capabilities.accepts_prompted_functions
    return way == "prompted"


def _resolve_tools(
    given: Mapping[str, Any],
    cache: CacheContents | None,
    capabilities: Capabilities,
    *,
    vertexai: bool | None,
) -> tuple[BoundTools, ToolChoice]:
    """Bind, check and choose tools; those of the cache if the call has none.

    Args:
        given: The options.
        cache: What the context cache contains.
        capabilities: What the model supports.
        vertexai: Whether the request goes to Vertex AI; `None` for the Interactions API.
    """
    choice, config, tools = map(given.get, ("tool_choice", "tool_config", "tools"))
    if cache and not tools:
        tools = cache.tools
        if choice is None and config is None:
            choice = cache.tool_choice  # resolved when the cache was created
    if not isinstance(tools, BoundTools):
        tools = bind_tools(tools or ())
    if config is None and (choice is None or isinstance(choice, (str, bool))):
        return tools, _choose_once(choice, tools, capabilities, vertexai=vertexai)
    return tools, _choose(choice, tools, capabilities, config, vertexai=vertexai)


# An agent sends the same tools at every step: they are checked and chosen when they are bound.


def _choose(
    choice: Any,
    tools: BoundTools,
    capabilities: Capabilities,
    config: Any = None,
    *,
    vertexai: bool | None,
) -> ToolChoice:
    if tools:
        _check_tools(tools, capabilities, vertexai=vertexai)
    return resolve_tool_choice(choice, tools, capabilities, config)


_choose_once = lru_cache(maxsize=128)(_choose)


@lru_cache(maxsize=128)
def _check_tools(tools: BoundTools, capabilities: Capabilities, *, vertexai: bool | None) -> None:
    # Loads what is known about schemas, which a call without tools never needs.
    from langchain_gemini_tools.wire.tools.lint import reject_unusable_tools

    reject_unusable_tools(tools, capabilities)
    if vertexai is not None:
        check_tools(tools, vertexai=vertexai)
