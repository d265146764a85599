"""A binding passes its options to every method, and is a LangChain binding in every other way."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import OutputParserException
from langchain_core.load import dumpd, load
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import (
    ConfigurableField,
    Runnable,
    RunnableBinding,
    RunnableParallel,
    RunnableSequence,
)
from pydantic import BaseModel, SecretStr

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.binding import GeminiBinding
from langchain_gemini_tools.errors import InvalidOptionError, UnknownToolError
from langchain_gemini_tools.structured_output import StructuredOutput

if TYPE_CHECKING:
    from langchain_core.language_models import LanguageModelInput

hx = importlib.import_module("httpx2" if importlib.util.find_spec("httpx2") else "httpx")

Json = dict[str, Any]

GEMINI_2 = "gemini-2.5-flash"
GEMINI_3 = "gemini-3-flash-preview"
GEMMA = "gemma-3-27b-it"


def search(query: str) -> str:
    """Search."""
    return query


def find(query: str) -> str:
    """Find."""
    return query


class City(BaseModel):
    """A city."""

    name: str


class Api:
    """A model whose requests are kept, and answered with the same text or number of tokens."""

    def __init__(self, model: str = GEMINI_3) -> None:
        self.sent: list[tuple[str, Json]] = []
        transport = {"transport": hx.MockTransport(self.respond)}
        self.model = ChatGemini(model=model, api_key="not-used", client_args=transport)

    def respond(self, request: Any) -> Any:
        self.sent.append((request.url.path.rsplit("/")[-1], json.loads(request.content)))
        if request.url.path.endswith(":countTokens"):
            return hx.Response(200, json={"totalTokens": 7})
        candidate = {"content": {"parts": [{"text": "Hello."}]}, "finishReason": "STOP"}
        return hx.Response(200, json={"candidates": [candidate]})


def names(request: Any) -> list[str]:
    """Return the names of the functions that a request declares."""
    tools = request.body.get("tools", [])
    return [each["name"] for tool in tools for each in tool["functionDeclarations"]]


# What the options reach


def test_a_preview_shows_bound_tools_and_options() -> None:
    bound = ChatGemini(model=GEMINI_3).bind_tools([search], tool_choice="any", temperature=0.5)
    request = bound.preview("Hi", top_k=3)
    assert names(request) == ["search"]
    assert request.body["generationConfig"] == {"temperature": 0.5, "topK": 3}
    assert request.body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda bound: bound.invoke("Hi"), id="invoke"),
        pytest.param(lambda bound: bound.batch(["Hi"]), id="batch"),
        pytest.param(lambda bound: bound.with_retry().invoke("Hi"), id="with_retry"),
        pytest.param(lambda bound: bound.with_config(tags=["a"]).invoke("Hi"), id="with_config"),
        pytest.param(lambda bound: bound.with_fallbacks([bound]).invoke("Hi"), id="fallbacks"),
        pytest.param(lambda bound: pickle.loads(pickle.dumps(bound)).kwargs, id="pickle"),
    ],
)
def test_what_is_sent_is_what_a_preview_shows(use: Any) -> None:
    api = Api()
    bound = api.model.bind_tools([search], temperature=0.5)
    use(bound)
    assert all(body == bound.preview("Hi").body for _, body in api.sent)


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda bound: bound.with_retry(), id="with_retry"),
        pytest.param(lambda bound: bound.with_config(tags=["a"]), id="with_config"),
        pytest.param(lambda bound: bound.with_types(output_type=AIMessage), id="with_types"),
        pytest.param(lambda bound: bound.with_listeners(on_start=print), id="with_listeners"),
        pytest.param(lambda bound: bound.bind(), id="bind"),
        pytest.param(copy.copy, id="copy"),
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda bound: pickle.loads(pickle.dumps(bound)), id="pickle"),
    ],
)
def test_a_wrapped_binding_keeps_its_options(wrap: Any) -> None:
    bound = ChatGemini(model=GEMINI_3).bind_tools([search], temperature=0.5)
    wrapped = wrap(bound)
    assert isinstance(wrapped, GeminiBinding)
    assert wrapped.preview("Hi").body == bound.preview("Hi").body


def test_a_call_overrides_bound_options_in_a_preview() -> None:
    bound = ChatGemini(model=GEMINI_3).bind(stop_sequences=["a"], temperature=0.5)
    assert bound.preview("Hi", stop=["b"], temperature=None).body["generationConfig"] == {
        "stopSequences": ["b"]
    }


@pytest.mark.parametrize("options", [{}, {"stop": None}, {"stop": ["b"]}])
def test_bound_stop_sequences_are_previewed_as_they_are_sent(options: Json) -> None:
    api = Api()
    bound = api.model.bind(stop=["a"])
    bound.invoke("Hi", **options)
    assert api.sent[-1][1] == bound.preview("Hi", **options).body


def test_options_are_bound_one_after_the_other() -> None:
    model = ChatGemini(model=GEMINI_3)
    bound = model.bind(temperature=0.5).bind_tools([search]).bind(temperature=0.7, top_k=1)
    request = bound.preview("Hi")
    assert names(request) == ["search"]
    assert request.body["generationConfig"] == {"temperature": 0.7, "topK": 1}


OBJECT: Json = {"type": "object", "properties": {"name": {"type": "string"}}}


@pytest.mark.parametrize(
    ("first", "second", "last"),
    [
        ({"max_output_tokens": 7}, {"max_tokens": 5}, {"max_output_tokens": 9}),
        ({"stop": ["a"]}, {"stop_sequences": ["b"]}, {"stop": ["c"]}),
        ({"thinking_budget": 5}, {"reasoning_effort": "low"}, {"thinking_budget": 7}),
        ({"reasoning_effort": "low"}, {"thinking_budget": 7}, {"thinking_level": "high"}),
        (
            {"response_format": {"type": "json_object"}},
            {"response_schema": OBJECT},
            {"response_format": {"type": "text"}},
        ),
    ],
)
def test_the_option_that_is_set_last_applies_under_every_name(
    first: Json, second: Json, last: Json
) -> None:
    model = ChatGemini(model=GEMINI_2)
    twice = model.bind(**first).bind(**second)
    expected = model.preview("Hi", **last).body
    assert twice.bind(**last).preview("Hi").body == expected
    assert twice.preview("Hi", **last).body == expected
    with_tools = model.bind(**first).bind_tools([search], **second).bind_tools([search], **last)
    assert with_tools.preview("Hi").body == model.bind_tools([search], **last).preview("Hi").body


def test_options_that_belong_together_may_be_bound_apart() -> None:
    model = ChatGemini(model=GEMINI_2)
    bound = model.bind(response_schema=OBJECT).bind(response_mime_type="application/json")
    assert bound.preview("Hi").body["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": OBJECT,
    }
    bound = model.bind(generation_config={"temperature": 0.1, "topK": 3}).bind(temperature=0.2)
    again = bound.bind(generation_config={"temperature": 0.3})
    assert bound.preview("Hi").body["generationConfig"] == {"temperature": 0.2, "topK": 3}
    assert again.preview("Hi").body["generationConfig"] == {"temperature": 0.3}


def test_tools_replace_bound_tools_and_their_choice() -> None:
    bound = ChatGemini(model=GEMINI_3).bind_tools([search], tool_choice="search", temperature=0.5)
    request = bound.bind_tools([find]).preview("Hi")
    assert (names(request), "toolConfig" in request.body) == (["find"], False)
    assert request.body["generationConfig"] == {"temperature": 0.5}


def test_a_choice_may_be_bound_before_its_tools() -> None:
    model = ChatGemini(model=GEMINI_3)
    request = model.bind(tool_choice="any").bind_tools([search]).preview("Hi")
    assert request.body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}
    with pytest.raises(UnknownToolError):
        model.bind(tool_choice="find").bind_tools([search])


def test_a_config_stays_when_tools_are_bound() -> None:
    bound = ChatGemini(model=GEMINI_3).with_config(tags=["a"]).bind_tools([search])
    assert (bound.config, names(bound.preview("Hi"))) == ({"tags": ["a"]}, ["search"])
    assert bound.with_structured_output(City, "json_schema").binding.config == {"tags": ["a"]}


def test_tokens_are_counted_with_bound_tools_and_the_bound_model() -> None:
    api = Api()
    bound = api.model.bind_tools([search], model=GEMINI_2)
    assert bound.get_num_tokens_from_messages([HumanMessage("Hi")]) == 7
    assert bound.get_num_tokens("Hi") == 7
    ((path, with_tools), (_, text_alone)) = api.sent
    assert path == f"{GEMINI_2}:countTokens"
    assert "tools" in with_tools["generateContentRequest"]
    assert "tools" not in text_alone["generateContentRequest"]


def test_prompted_tools_are_described_as_they_are_bound() -> None:
    model = ChatGemini(model=GEMMA)
    bound = model.bind_tools([search], tool_choice="any")
    assert bound.render_prompt() == model.render_prompt([search], tool_choice="any")
    assert bound.render_prompt([find]) == model.render_prompt([find], tool_choice="any")
    assert bound.prompt_overhead() == model.prompt_overhead([search], tool_choice="any")


# Structured output


@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
@pytest.mark.parametrize("include_raw", [False, True])
def test_structured_output_keeps_its_binding(method: Any, include_raw: bool) -> None:
    api = Api()
    bound = api.model.bind(temperature=0.5)
    chain = bound.with_structured_output(City, method, include_raw=include_raw)
    assert isinstance(chain, StructuredOutput)
    assert isinstance(chain.binding, GeminiBinding)
    request = chain.preview("Hi")
    assert request.body == chain.binding.preview("Hi").body
    assert request.body["generationConfig"]["temperature"] == 0.5
    assert ("tools" in request.body) == (method == "function_calling")
    assert chain.get_num_tokens_from_messages([HumanMessage("Hi")]) == 7
    assert api.sent[-1][1]["generateContentRequest"].keys() == {"model", *request.body}


@pytest.mark.parametrize("include_raw", [False, True])
def test_options_may_be_bound_to_a_structured_output(include_raw: bool) -> None:
    api = Api()
    structured = api.model.with_structured_output(City, "json_schema", include_raw=include_raw)
    bound = structured.bind(temperature=0.5).bind(temperature=0.7)
    assert bound.preview("Hi").body["generationConfig"]["temperature"] == 0.7
    assert "temperature" not in structured.preview("Hi").body["generationConfig"]
    with contextlib.suppress(OutputParserException):
        bound.invoke("Hi")
    assert api.sent[-1][1] == bound.preview("Hi").body


def test_bound_tools_exclude_a_forced_call_and_not_json_output() -> None:
    bound = ChatGemini(model=GEMINI_3).bind_tools([search])
    with pytest.raises(InvalidOptionError, match=r"tools cannot be combined.*json_schema"):
        bound.with_structured_output(City)
    assert names(bound.with_structured_output(City, "json_schema").preview("Hi")) == ["search"]


def test_a_forced_call_replaces_bound_json_output() -> None:
    bound = ChatGemini(model=GEMINI_2).bind(response_mime_type="application/json")
    body = bound.with_structured_output(City).preview("Hi").body
    assert "generationConfig" not in body


# A LangChain binding


def test_it_is_the_binding_that_agents_look_into() -> None:
    model = ChatGemini(model=GEMINI_3)
    bound: Runnable[LanguageModelInput, AIMessage] = model.bind_tools([search])
    assert isinstance(bound, RunnableBinding)
    assert bound.bound is model
    (tool,) = bound.kwargs["tools"]
    assert (tool.get("type"), tool["function"]["name"]) == ("function", "search")
    assert (bound.model, bound.profile) == (model.model, model.profile)
    assert isinstance(bound | RunnableParallel(a=bound), RunnableSequence)


class Tracer(BaseCallbackHandler):
    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.params = kwargs["invocation_params"]


class Cache(InMemoryCache):
    """A cache that keeps its keys."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    def lookup(self, prompt: str, llm_string: str) -> Any:
        self.keys.append(llm_string)
        return super().lookup(prompt, llm_string)


def test_tracers_and_caches_see_bound_tools_as_plain_dicts() -> None:
    api, tracer, cache = Api(), Tracer(), Cache()
    api.model.cache = cache
    for _ in range(2):
        bound = api.model.bind_tools([search], tool_choice="search")
        bound.invoke("Hi", {"callbacks": [tracer]})
    declared = bound.preview("Hi").body["tools"][0]["functionDeclarations"][0]
    (shown,) = tracer.params["tools"]
    assert type(shown) is dict
    assert shown["function"]["parameters"] == declared["parametersJsonSchema"]
    first, second = cache.keys
    assert first == second
    assert str(shown) in first
    assert "not-used" not in first
    assert len(api.sent) == 1


@pytest.mark.parametrize(
    ("options", "stop", "limit"),
    [({}, ["X"], 9), ({"stop": ["Y"], "max_tokens": 5}, ["Y"], 5)],
    ids=["of the model", "of the call"],
)
def test_tracers_see_stop_sequences_and_the_limit_of_tokens(
    options: Json, stop: list[str], limit: int
) -> None:
    """Langfuse and Traceloop read `max_tokens` only."""
    api, tracer = Api(GEMINI_2), Tracer()
    chat = api.model.model_copy(update={"stop": ["X"], "max_output_tokens": 9})
    chat.invoke("Hi", {"callbacks": [tracer]}, **options)
    ((_, sent),) = api.sent
    assert sent["generationConfig"] == {"stopSequences": stop, "maxOutputTokens": limit}
    shown = tracer.params
    assert (shown["stop"], shown["max_output_tokens"], shown["max_tokens"]) == (stop, limit, limit)


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_a_binding_survives_serialisation() -> None:
    bound = ChatGemini(model=GEMINI_3, api_key="not-used").bind_tools([search], temperature=0.5)
    restored = load(
        dumpd(bound),
        allowed_objects=[ChatGemini, GeminiBinding],
        valid_namespaces=["langchain_gemini_tools"],
        secrets_map={"GOOGLE_API_KEY": "not-used"},
    )
    assert isinstance(restored, GeminiBinding)
    assert restored.preview("Hi").body == bound.preview("Hi").body


def test_fields_of_the_model_may_be_configurable() -> None:
    api = Api()
    chosen = api.model.configurable_fields(temperature=ConfigurableField(id="temperature"))
    chosen.bind(top_k=1).invoke("Hi", {"configurable": {"temperature": 0.5}})
    assert api.sent[-1][1]["generationConfig"] == {"temperature": 0.5, "topK": 1}


def test_a_binding_may_have_alternatives() -> None:
    api = Api()
    first, second = api.model.bind(temperature=0.1), api.model.bind(temperature=0.2)
    chosen = first.configurable_alternatives(ConfigurableField(id="which"), other=second)
    chosen.invoke("Hi", {"configurable": {"which": "other"}})
    assert api.sent[-1][1]["generationConfig"] == {"temperature": 0.2}


@pytest.mark.parametrize(
    "bind",
    [
        pytest.param(lambda chain: chain.bind_tools([search]), id="bind_tools"),
        pytest.param(lambda chain: chain.with_structured_output(City), id="structured"),
    ],
)
def test_fallbacks_of_bindings_are_bound_as_well(bind: Any) -> None:
    model = ChatGemini(model=GEMINI_3)
    chain = bind(model.bind(temperature=0.1).with_fallbacks([model.bind(temperature=0.2)]))
    bodies = [each.preview("Hi").body for each in chain.runnables]
    assert [body["generationConfig"] for body in bodies] == [
        {"temperature": 0.1},
        {"temperature": 0.2},
    ]
    assert all("tools" in body for body in bodies)


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda model: model.with_config(tags=["a"]), id="with_config"),
        pytest.param(lambda model: model.with_listeners(on_start=print), id="with_listeners"),
        pytest.param(lambda model: model.with_types(output_type=AIMessage), id="with_types"),
    ],
)
def test_what_is_bound_to_a_wrapped_model_is_in_its_previews(wrap: Any) -> None:
    model = ChatGemini(model=GEMINI_3)
    bound = wrap(model).bind(temperature=0.5).bind_tools([search])
    assert (
        bound.preview("Hi").body == model.bind_tools([search], temperature=0.5).preview("Hi").body
    )


class Described(ChatGemini):
    """A model that adds to its description, as core lets subclasses do."""

    def dict(self, **kwargs: Any) -> Json:
        return {**super().dict(**kwargs), "team": "a"}


def test_tracers_see_what_a_subclass_adds_to_its_description() -> None:
    tracer, arguments = Tracer(), Api().model.client_args
    model = Described(model=GEMINI_3, api_key=SecretStr("not-used"), client_args=arguments)
    model.invoke("Hi", {"callbacks": [tracer]})
    assert tracer.params["team"] == "a"
    assert tracer.params["model"] == GEMINI_3
