"""The API, the address and the key that a model uses, by its arguments and the environment."""

from __future__ import annotations

import importlib.util
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from google.auth import credentials as google_credentials
from langchain_core.load import dumpd, load
from langchain_core.runnables import ConfigurableField

from langchain_gemini_tools import ChatGemini
from langchain_gemini_tools.errors import GeminiAuthenticationError, InvalidOptionError

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]

hx = importlib.import_module("httpx2" if importlib.util.find_spec("httpx2") else "httpx")

FOUND = "key-of-the-environment"
GIVEN = "key-that-was-given"
TOKEN = "token-of-the-credentials"
DEVELOPER = "/v1beta/models/gemini-3.8-flash:generateContent"
EXPRESS = "/v1beta1/publishers/google/models/gemini-3.8-flash:generateContent"
PROJECT = "/v1beta1/projects/p/locations/l/publishers/google/models/gemini-3.8-flash"
GLOBAL = PROJECT.replace("/l/", "/global/") + ":generateContent"
PLACE: Json = {"project": "p", "location": "l"}
USE_VERTEX = {"GOOGLE_GENAI_USE_VERTEXAI": "true"}
ITS_PLACE = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l"}


class Credentials(google_credentials.Credentials):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.token = TOKEN

    def refresh(self, request: Any) -> None:
        raise NotImplementedError


class Answering:
    """A model whose requests are answered here and kept."""

    def __init__(self, **given: Any) -> None:
        self.sent: list[tuple[str, str | None, str | None]] = []
        self.hosts: list[str] = []
        self.model = ChatGemini(
            model="gemini-3.8-flash", max_retries=0, client_args=self.client_args, **given
        )

    @property
    def client_args(self) -> Json:
        return {"transport": hx.MockTransport(self.answer)}

    def answer(self, request: Any) -> Any:
        path = request.url.path.replace(f"{PROJECT}:generateContent", PROJECT)
        headers = request.headers
        self.hosts.append(request.url.host)
        self.sent.append((path, headers.get("x-goog-api-key"), headers.get("authorization")))
        answer = {"content": {"parts": [{"text": "Hello."}]}, "finishReason": "STOP"}
        return hx.Response(200, json={"candidates": [answer]})


def set_all(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("given", "variables"),
    [
        pytest.param({"vertexai": True, **PLACE}, {}, id="vertexai"),
        pytest.param(PLACE, {}, id="a project"),
        pytest.param({"vertexai": True}, ITS_PLACE, id="a project of the environment"),
        pytest.param({}, USE_VERTEX | ITS_PLACE, id="all of the environment"),
    ],
)
@pytest.mark.parametrize("key", [None, GIVEN], ids=["found", "passed"])
def test_credentials_beat_a_key(
    given: Json, variables: dict[str, str], key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_all(monkeypatch, {"GOOGLE_API_KEY": FOUND, **variables})
    # As langchain-google-genai documents it: credentials are used whether a key is there or not.
    passed = {} if key is None else {"api_key": key}
    asked = Answering(credentials=Credentials(), **passed, **given)
    asked.model.invoke("Hi")
    assert asked.sent == [(PROJECT, None, f"Bearer {TOKEN}")]


@pytest.mark.parametrize("variable", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
@pytest.mark.parametrize(
    ("given", "variables"),
    [
        pytest.param({"vertexai": True, **PLACE}, {}, id="vertexai"),
        pytest.param(PLACE, {}, id="a project"),
        pytest.param({"vertexai": True}, ITS_PLACE, id="a project of the environment"),
        pytest.param({}, USE_VERTEX | ITS_PLACE, id="all of the environment"),
    ],
)
def test_a_project_asks_for_credentials_and_never_sends_a_key_of_the_environment(
    given: Json,
    variables: dict[str, str],
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    nowhere = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "none.json")}
    set_all(monkeypatch, {variable: FOUND, **variables, **nowhere})
    asked = Answering(**given)
    with pytest.raises(GeminiAuthenticationError, match="credentials"):
        asked.model.invoke("Hi")
    assert asked.sent == []


@pytest.mark.parametrize(
    ("given", "variables", "sent"),
    [
        pytest.param({}, {}, (DEVELOPER, FOUND), id="found"),
        pytest.param({}, ITS_PLACE, (DEVELOPER, FOUND), id="found beside a project"),
        pytest.param({"vertexai": True}, {}, (EXPRESS, FOUND), id="express"),
        pytest.param({}, USE_VERTEX, (EXPRESS, FOUND), id="express by the environment"),
        pytest.param({}, {"GOOGLE_GENAI_USE_VERTEXAI": "yes"}, (EXPRESS, FOUND), id="yes"),
        pytest.param({"api_key": GIVEN}, {}, (DEVELOPER, GIVEN), id="given"),
        # As files end: google-genai removes white space around a key as well.
        pytest.param({"api_key": f" {GIVEN}\n"}, {}, (DEVELOPER, GIVEN), id="given, a line"),
        pytest.param(
            {}, {"GOOGLE_API_KEY": f"{FOUND}\r\n"}, (DEVELOPER, FOUND), id="found, a line"
        ),
        pytest.param(
            {"api_version": ""}, {}, (DEVELOPER.removeprefix("/v1beta"), FOUND), id="no version"
        ),
        pytest.param(
            {"api_key": GIVEN}, USE_VERTEX | ITS_PLACE, (EXPRESS, GIVEN), id="express, given"
        ),
        pytest.param(
            {"api_key": GIVEN, "vertexai": True, **PLACE}, {}, (PROJECT, GIVEN), id="all given"
        ),
        # As langchain-google-genai documents it: a project means Vertex AI.
        pytest.param({"api_key": GIVEN, **PLACE}, {}, (PROJECT, GIVEN), id="beside a project"),
        pytest.param({"api_key": GIVEN, "project": "p"}, {}, (GLOBAL, GIVEN), id="no location"),
        pytest.param(
            {"api_key": GIVEN, "project": "p"},
            {"GOOGLE_CLOUD_LOCATION": "l"},
            (PROJECT, GIVEN),
            id="a location of the environment",
        ),
        pytest.param({"api_key": GIVEN, "location": "l"}, {}, (DEVELOPER, GIVEN), id="a location"),
        pytest.param(
            {"api_key": GIVEN, "vertexai": False, **PLACE}, {}, (DEVELOPER, GIVEN), id="not Vertex"
        ),
        pytest.param(
            {"vertexai": False, **PLACE}, ITS_PLACE, (DEVELOPER, FOUND), id="found, not Vertex"
        ),
    ],
)
def test_a_key_is_sent_where_nothing_nearer_was_said(
    given: Json,
    variables: dict[str, str],
    sent: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_all(monkeypatch, {"GOOGLE_API_KEY": FOUND, **variables})
    asked = Answering(**given)
    asked.model.invoke("Hi")
    assert asked.sent == [(*sent, None)]


@pytest.mark.parametrize("proxy", [None, "https://proxy.example.com"], ids=["Google", "a proxy"])
def test_credentials_of_a_project_use_the_location_of_the_environment(
    proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_all(monkeypatch, {"GOOGLE_API_KEY": FOUND, "GOOGLE_CLOUD_LOCATION": "l"})
    asked = Answering(credentials=Credentials(), project="p", base_url=proxy)
    asked.model.invoke("Hi")
    assert asked.sent == [(PROJECT, None, f"Bearer {TOKEN}")]


GATEWAY = {"LANGSMITH_GATEWAY": "true", "LANGSMITH_API_KEY": "key-of-langsmith"}
LANGSMITH = "gateway.smith.langchain.com"
GOOGLE = "generativelanguage.googleapis.com"


@pytest.mark.parametrize(
    ("given", "variables", "host", "sent"),
    [
        pytest.param({}, GATEWAY, LANGSMITH, (f"/gemini{DEVELOPER}", "key-of-langsmith"), id="on"),
        pytest.param(
            {},
            GATEWAY | {"LANGSMITH_GATEWAY_API_KEY": "key-of-the-gateway"},
            LANGSMITH,
            (f"/gemini{DEVELOPER}", "key-of-the-gateway"),
            id="its own key",
        ),
        pytest.param(
            {},
            {"LANGSMITH_GATEWAY": "https://llm.example.com/lc/"},
            "llm.example.com",
            (f"/lc/gemini{DEVELOPER}", FOUND),
            id="another gateway, without a key",
        ),
        pytest.param(
            {"api_key": GIVEN}, GATEWAY, LANGSMITH, (f"/gemini{DEVELOPER}", GIVEN), id="a given key"
        ),
        pytest.param(
            {"base_url": "https://proxy.example.com"},
            GATEWAY,
            "proxy.example.com",
            (DEVELOPER, FOUND),
            id="a given address",
        ),
        pytest.param(
            {},
            GATEWAY | {"GOOGLE_GEMINI_BASE_URL": "https://proxy.example.com"},
            "proxy.example.com",
            (DEVELOPER, FOUND),
            id="an address of the environment",
        ),
        pytest.param(
            {}, {**GATEWAY, "LANGSMITH_GATEWAY": "No"}, GOOGLE, (DEVELOPER, FOUND), id="off"
        ),
        pytest.param(
            {"vertexai": True}, GATEWAY, "aiplatform.googleapis.com", (EXPRESS, FOUND), id="Vertex"
        ),
    ],
)
def test_the_langsmith_gateway_of_the_environment_is_used(
    given: Json,
    variables: dict[str, str],
    host: str,
    sent: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_all(monkeypatch, {"GOOGLE_API_KEY": FOUND, **variables})
    asked = Answering(**given)
    asked.model.invoke("Hi")
    assert asked.hosts == [host]
    assert asked.sent == [(*sent, None)]


def test_errors_name_the_key_of_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """And do not show it."""
    set_all(monkeypatch, {**GATEWAY, "LANGSMITH_API_KEY": "key-of-langsmith\u200b"})
    model = Answering().model
    with pytest.raises(InvalidOptionError, match=r"^LANGSMITH_API_KEY is not valid") as raised:
        model.invoke("Hi")
    assert "key-of" not in f"{raised.value!r} {model!r}"
    monkeypatch.delenv("LANGSMITH_API_KEY")
    with pytest.raises(GeminiAuthenticationError, match="LANGSMITH_API_KEY"):
        model.invoke("Hi")


def test_a_service_account_brings_its_project() -> None:
    class ServiceAccount(Credentials):
        project_id = "p"

    asked = Answering(credentials=ServiceAccount(), location="l")
    asked.model.invoke("Hi")
    assert asked.model.project == "p"
    assert asked.sent == [(PROJECT, None, f"Bearer {TOKEN}")]


def test_the_developer_apis_prefix_of_a_model_is_not_sent_to_vertex() -> None:
    asked = Answering(credentials=Credentials(), **PLACE)
    asked.model.invoke("Hi", model="models/gemini-3.8-flash")
    assert asked.sent == [(PROJECT, None, f"Bearer {TOKEN}")]


def test_a_key_that_is_given_later_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, {"GOOGLE_API_KEY": FOUND, **USE_VERTEX, **ITS_PLACE})
    asked = Answering(credentials=Credentials())
    asked.model.invoke("Hi")
    asked.model.model_copy(update={"api_key": GIVEN, "credentials": None}).invoke("Hi")
    asked.model.google_api_key, asked.model.credentials = GIVEN, None  # type: ignore[assignment]
    asked.model.invoke("Hi")
    of_the_key = (EXPRESS, GIVEN, None)
    assert asked.sent == [(PROJECT, None, f"Bearer {TOKEN}"), of_the_key, of_the_key]


@pytest.mark.parametrize("is_there", [True, False], ids=["with the key", "without the key"])
def test_a_pickled_model_of_a_project_stays_with_it(
    is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", FOUND)
    chat = ChatGemini(model="gemini-3.8-flash", credentials=Credentials(), **PLACE)
    pickled = pickle.dumps(chat)
    assert FOUND.encode() not in pickled
    if not is_there:
        monkeypatch.delenv("GOOGLE_API_KEY")
    asked = Answering()
    again = {"credentials": Credentials(), "client_args": asked.client_args}
    pickle.loads(pickled).model_copy(update=again).invoke("Hi")
    assert asked.sent == [(PROJECT, None, f"Bearer {TOKEN}")]


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_a_stored_model_of_a_project_stays_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", FOUND)
    stored = dumpd(ChatGemini(model="gemini-3.8-flash", vertexai=True, **PLACE))
    restored = load(
        stored,
        allowed_objects=[ChatGemini],
        valid_namespaces=["langchain_gemini_tools"],
        secrets_map={"GOOGLE_API_KEY": FOUND},
    )
    asked = Answering()
    again = {"credentials": Credentials(), "client_args": asked.client_args}
    restored.model_copy(update=again).invoke("Hi")
    assert asked.sent == [(PROJECT, None, f"Bearer {TOKEN}")]


def test_a_model_with_configurable_fields_finds_the_key_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_all(monkeypatch, {"GOOGLE_API_KEY": FOUND})
    asked = Answering(credentials=Credentials(), **PLACE)
    warmth = ConfigurableField(id="warmth")
    chosen = asked.model.configurable_fields(temperature=warmth)
    chosen.with_config(configurable={"warmth": 0.5}).invoke("Hi")
    ChatGemini(**dict(asked.model)).invoke("Hi")
    assert asked.sent == [(PROJECT, None, f"Bearer {TOKEN}")] * 2
