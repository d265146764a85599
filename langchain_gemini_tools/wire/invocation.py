"""`Invocation`: everything about one use of the model except its messages.

`options.py` resolves one from the constructor, `model_kwargs`, bound options and the call, once per
invocation. From there on it travels with the request, and no other module reads an option again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from langchain_gemini_tools.errors import InvalidOptionError
from langchain_gemini_tools.wire.tools.choice import ToolChoice

if TYPE_CHECKING:
    from langchain_gemini_tools.facts.credentials import PrivateHeaders
    from langchain_gemini_tools.facts.models import Capabilities
    from langchain_gemini_tools.wire.cache import CacheContents
    from langchain_gemini_tools.wire.tools.tool import SchemaForm, Tool


ToolChoiceOption = (
    Literal["auto", "any", "required", "none", "validated"]  # noqa: PYI051 - editors complete them
    | str
    | bool
    | Sequence[str]
    | Mapping[str, Any]
    | BaseModel
    | None
)
"""What `tool_choice` accepts: a mode, names of tools, or a dict (OpenAI, Anthropic, Gemini)."""


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
    allow_hosts: tuple[str, ...] = ()
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


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """The resolved options of one use of the model."""

    model: str
    capabilities: Capabilities
    vertexai: bool = False
    interaction: InteractionOptions | None = None
    """Set for the Interactions API; `None` for generateContent."""

    tools: tuple[Tool, ...] = ()
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
    streams_blocks: bool = False
    """Core translates each chunk of a stream into content blocks."""
    retries_with_feedback: bool = False
    """Send a malformed response back once, with a description of what was wrong."""

    fetch_limits: FetchLimits | None = None
    """Limits for downloading media that messages name by URL; `None` downloads nothing."""
    headers: PrivateHeaders | None = None
    """Headers of this call, in addition to the model's."""
    timeout_seconds: float | None = None
    stream_timeout_seconds: float | None = None
    max_retries: int = 0
    max_retry_delay_seconds: float = 60.0

    @property
    def circulates_server_tools(self) -> bool:
        """Whether the parts that server-side tools produced may be sent back."""
        is_supported = self.capabilities.combines_builtin_tools_with_functions
        return is_supported and not self.vertexai and self.interaction is None
