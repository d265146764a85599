"""The emulator over real HTTP, asked by the plain SDK and by plain sockets."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from google import genai
from google.genai import errors, types
from google.oauth2.credentials import Credentials

from langchain_gemini_tools.testing.fake import ACCESS_TOKEN, API_KEY, Emulator, faults

if TYPE_CHECKING:
    from langchain_gemini_tools.testing.fake.script import Fault

MODEL = "gemini-3.8-flash"
PATH = f"/v1/models/{MODEL}:generateContent"
STREAM_PATH = f"/v1/models/{MODEL}:streamGenerateContent?alt=sse"
TEXT = "Sunny in Tromsø."
HELLO = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}


@pytest.fixture
def client(emulator: Emulator) -> genai.Client:
    return genai.Client(api_key=API_KEY, http_options={"base_url": emulator.url})


class Reader:
    """A connection that keeps what came, also when it broke."""

    def __init__(self, emulator: Emulator) -> None:
        host = emulator.url.removeprefix("http://")
        self.connection = http.client.HTTPConnection(host, timeout=5)

    def post(self, path: str = PATH, body: Any = None, **headers: str) -> http.client.HTTPResponse:
        payload = json.dumps(HELLO if body is None else body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request("POST", path, payload, {"x-goog-api-key": API_KEY} | named)
        return self.connection.getresponse()


@pytest.fixture
def reader(emulator: Emulator) -> Reader:
    return Reader(emulator)


def streamed(emulator: Emulator, fault: Fault) -> bytes:
    emulator.reply(TEXT, fault=fault)
    body: bytes = Reader(emulator).post(STREAM_PATH).read()
    return body


def said(body: bytes) -> str:
    """The text of the whole events in a stream."""
    events = [line[6:] for line in body.decode().split("\r\n") if line.startswith("data: {")]
    candidates = [json.loads(event).get("candidates", [{}])[0] for event in events]
    return "".join(part["text"] for each in candidates if each for part in each["content"]["parts"])


# Routes and the log.


def test_the_sdk_gets_an_answer_and_the_log_keeps_the_request(
    emulator: Emulator, client: genai.Client
) -> None:
    response = client.models.generate_content(model=MODEL, contents="Hello")

    assert "you" in (response.text or "")
    assert response.model_version == MODEL
    request = emulator.last
    assert request.method == "POST"
    assert request.path in {PATH, PATH.replace("/v1/", "/v1beta/")}  # SDK 3.x, and 2.x
    assert (request.model, request.backend, request.is_stream) == (MODEL, "gemini", False)
    assert request.headers["x-goog-api-key"] == API_KEY
    assert request.body["contents"] == [{"parts": [{"text": "Hello"}], "role": "user"}]
    assert json.loads(request.raw) == request.body


def test_the_sdk_streams(emulator: Emulator, client: genai.Client) -> None:
    chunks = list(client.models.generate_content_stream(model=MODEL, contents="Hello"))

    assert len(chunks) >= 4
    assert "".join(chunk.text or "" for chunk in chunks).startswith("Hello!")
    assert emulator.last.query == {"alt": "sse"}
    last = chunks[-1].candidates[0]  # type: ignore[index]
    assert last.finish_reason == types.FinishReason.STOP


def test_automatic_function_calling_goes_round(emulator: Emulator, client: genai.Client) -> None:
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return f"sunny in {city}"

    get_weather.__annotations__ = {"city": str, "return": str}  # SDK 2.x cannot read them as text
    config = types.GenerateContentConfig(tools=[get_weather])
    response = client.models.generate_content(
        model=MODEL, contents="Weather in Oslo and Rome?", config=config
    )

    assert "sunny in Oslo" in (response.text or "")
    assert "sunny in Rome" in (response.text or "")
    assert len(emulator.requests) == 2
    assert emulator.refusals == []


def test_vertex_has_its_own_paths(emulator: Emulator) -> None:
    client = genai.Client(
        vertexai=True,
        project="p",
        location="l",
        credentials=Credentials(token=ACCESS_TOKEN),  # type: ignore[no-untyped-call]
        http_options={"base_url": emulator.url},
    )
    client.models.generate_content(model=MODEL, contents="Hello")

    assert emulator.last.backend == "vertex"
    assert emulator.last.path == (
        f"/v1beta1/projects/p/locations/l/publishers/google/models/{MODEL}:generateContent"
    )


def test_a_base_url_may_have_a_path(emulator: Emulator) -> None:
    options = types.HttpOptions(base_url=f"{emulator.url}/proxy/", api_version="v1beta")
    client = genai.Client(api_key=API_KEY, http_options=options)
    client.models.generate_content(model="gemini-flash-latest", contents="Hello")
    assert emulator.last.path == "/proxy/v1beta/models/gemini-flash-latest:generateContent"


def test_tokens_are_counted_and_models_described(client: genai.Client) -> None:
    assert (client.models.count_tokens(model=MODEL, contents="Hello").total_tokens or 0) > 0
    assert client.models.get(model=MODEL).name == f"models/{MODEL}"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        pytest.param(PATH, {"x_goog_api_key": "bad"}, 400, id="bad-key"),
        pytest.param("/v1/models/nope:generateContent", {}, 404, id="no-such-model"),
        pytest.param("/v1/nowhere", {}, 404, id="no-such-page"),
        pytest.param(f"/v1beta{PATH}", {}, 404, id="two-versions"),
        pytest.param(PATH, {"x_server_timeout": "5"}, 400, id="short-deadline"),
    ],
)
def test_a_bad_path_or_key_is_rejected(
    emulator: Emulator, reader: Reader, path: str, headers: dict[str, str], status: int
) -> None:
    assert reader.post(path, **headers).status == status
    assert len(emulator.requests) == 1


def test_a_rejection_has_the_wording_of_the_api_and_uses_no_scripted_response(
    emulator: Emulator, client: genai.Client
) -> None:
    emulator.reply("Still here.")
    with pytest.raises(errors.ClientError) as caught:
        client.models.generate_content(
            model=MODEL, contents="Hi", config={"stop_sequences": list("abcdef")}
        )
    assert caught.value.message == "the number of stop_sequences must not exceed 5"
    assert [refusal.message for refusal in emulator.refusals] == [caught.value.message]
    assert emulator.pending_replies == 1
    assert client.models.generate_content(model=MODEL, contents="Hi").text == "Still here."


def test_a_failure_of_the_emulator_does_not_look_like_a_response_of_gemini() -> None:
    def fail(_: object) -> NoReturn:
        raise ZeroDivisionError

    emulator = Emulator().__enter__()
    emulator.reply("never", fault=fail)
    assert Reader(emulator).post().status == 500
    with pytest.raises(RuntimeError, match="The emulator itself failed"):
        emulator.__exit__(None, None, None)


def test_a_search_of_the_server_comes_back_as_it_left(
    emulator: Emulator, client: genai.Client
) -> None:
    config = types.GenerateContentConfig(
        tools=[types.Tool(google_search=types.GoogleSearch())],
        tool_config=types.ToolConfig(include_server_side_tool_invocations=True),
    )
    chat = client.chats.create(model=MODEL, config=config)
    chat.send_message("Please search for news.")
    chat.send_message("Thanks. Please search for more.")

    echoed = emulator.last.body["contents"][1]["parts"]
    assert [part.keys() - {"thoughtSignature"} for part in echoed] == [
        {"toolCall"},
        {"toolResponse"},
        {"text"},
    ]
    assert emulator.refusals == []


def test_a_connection_is_kept_for_the_next_request(emulator: Emulator, reader: Reader) -> None:
    reader.post().read()
    before = reader.connection.sock
    reader.post(STREAM_PATH).read()
    reader.post("/v1/models/nope:generateContent").read()
    assert reader.connection.sock is before
    assert len(emulator.requests) == 3


@pytest.mark.parametrize(
    "beginning",
    [
        'content-length: 100\r\n\r\n{"contents": [',
        "content-length: 100\r\n\r\n",
        'transfer-encoding: chunked\r\n\r\n64\r\n{"contents": [',
        "transfer-encoding: chunked\r\n\r\n",
    ],
)
def test_a_request_that_its_client_did_not_finish_is_not_one(
    emulator: Emulator, beginning: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """As of a process that was killed while it wrote."""
    host, _, port = emulator.url.removeprefix("http://").partition(":")
    head = f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\nx-goog-api-key: {API_KEY}\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall((head + beginning).encode())
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1000) == b""
    assert (emulator.requests, emulator.refusals) == ([], [])
    assert capfd.readouterr().err == ""


def test_many_may_ask_at_once(emulator: Emulator) -> None:
    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: Reader(emulator).post().status, range(64)))
    assert statuses == [200] * 64
    assert len(emulator.requests) == 64


def test_stopping_waits_for_no_poll() -> None:
    """A server that looks twice a second whether to stop takes 100 times as long as a request."""
    requests, stops = [], []
    for _ in range(10):
        with Emulator() as emulator:
            reader = Reader(emulator)
            reader.post().read()
            start = time.monotonic()
            reader.post().read()
            asked = time.monotonic()
        stops.append(time.monotonic() - asked)
        requests.append(asked - start)
    assert min(stops) < 20 * min(requests)


# Scripts.


def test_scripted_replies_come_in_order_and_once(emulator: Emulator, client: genai.Client) -> None:
    emulator.reply("first")
    emulator.reply(calls=[("f", {"x": 1})])
    answers = [client.models.generate_content(model=MODEL, contents="Hi") for _ in range(3)]

    assert answers[0].text == "first"
    assert [call.name for call in answers[1].function_calls or []] == ["f"]
    assert "Hello!" in (answers[2].text or "")


def test_a_script_has_every_field_of_the_wire(emulator: Emulator, reader: Reader) -> None:
    emulator.reply(
        parts=[],
        finish_reason="MALFORMED_FUNCTION_CALL",
        finish_message="Malformed function call: print(1)",
        usage={"promptTokenCount": 1, "totalTokenCount": 1, "promptTokensDetails": None},
        candidate={"safetyRatings": []},
        headers={"x_gemini_service_tier": "standard"},
    )
    response = reader.post()
    body = json.loads(response.read())

    assert response.headers["x-gemini-service-tier"] == "standard"
    assert body["candidates"] == [
        {
            "content": {},
            "finishReason": "MALFORMED_FUNCTION_CALL",
            "finishMessage": "Malformed function call: print(1)",
            "index": 0,
            "safetyRatings": [],
        }
    ]
    assert body["usageMetadata"]["totalTokenCount"] == 1
    assert "promptTokensDetails" not in body["usageMetadata"]


def test_a_status_comes_with_its_body(emulator: Emulator, reader: Reader) -> None:
    emulator.reply(status=418, body={"error": {"code": 418}})
    response = reader.post(STREAM_PATH)
    assert (response.status, json.loads(response.read())) == (418, {"error": {"code": 418}})


def test_a_long_prompt_is_cached_for_the_next_request(
    emulator: Emulator, client: genai.Client
) -> None:
    story = "word " * 2000
    chat = client.chats.create(model=MODEL)
    usages = [chat.send_message(text).usage_metadata for text in (story, "Go on.")]
    assert next(usage.cached_content_token_count or 0 for usage in usages if usage) == 0
    assert [usage.cached_content_token_count or 0 for usage in usages if usage][1] > 2000


# Faults.


@pytest.mark.parametrize(
    ("fault", "status", "expected"),
    [
        pytest.param(faults.too_many_requests(), 429, b'"retryDelay": "26s"', id="429-minute"),
        pytest.param(faults.too_many_requests(per="day"), 429, b"PerDay", id="429-day"),
        pytest.param(faults.exhausted(), 429, b"check quota", id="429-bare"),
        pytest.param(faults.internal_error(), 500, b"INTERNAL", id="500"),
        pytest.param(faults.overloaded(), 503, b"UNAVAILABLE", id="503"),
        pytest.param(faults.deadline_exceeded(), 504, b"DEADLINE_EXCEEDED", id="504"),
        pytest.param(faults.forbidden("secret-key"), 403, b"secret-key", id="403"),
        pytest.param(faults.html_page(), 502, b"<!DOCTYPE html>", id="html"),
        pytest.param(faults.redirect("http://127.0.0.1:9/"), 302, b"", id="redirect"),
    ],
)
@pytest.mark.parametrize("path", [PATH, STREAM_PATH])
def test_rejections_replace_the_response(
    emulator: Emulator, path: str, fault: Fault, status: int, expected: bytes
) -> None:
    emulator.reply(fault=fault)
    response = Reader(emulator).post(path)
    assert response.status == status
    assert expected in response.read()


def test_the_429_states_quota_and_delay_as_gemini_does(
    emulator: Emulator, client: genai.Client
) -> None:
    emulator.reply(fault=faults.too_many_requests(retry_seconds=3, model=MODEL))
    with pytest.raises(errors.ClientError) as caught:
        client.models.generate_content(model=MODEL, contents="Hi")
    details = caught.value.details["error"]["details"]
    kinds = [detail["@type"].rpartition(".")[2] for detail in details]
    assert kinds == ["Help", "QuotaFailure", "RetryInfo"]


def test_a_cut_connection_breaks_the_stream_after_its_text(
    emulator: Emulator, reader: Reader
) -> None:
    emulator.reply("It is sunny in", fault=faults.cut_connection())
    response = reader.post(STREAM_PATH)
    with pytest.raises(http.client.IncompleteRead) as caught:
        response.read()
    assert said(caught.value.partial) == "It is sunny in"
    assert b"finishReason" not in caught.value.partial


def test_a_cut_connection_breaks_a_whole_body_in_the_middle(
    emulator: Emulator, reader: Reader
) -> None:
    emulator.reply("It is sunny", fault=faults.cut_connection())
    with pytest.raises(http.client.IncompleteRead):
        reader.post().read()


def test_a_connection_may_end_without_an_answer(emulator: Emulator, reader: Reader) -> None:
    emulator.reply("never heard", fault=faults.cut_before_headers())
    with pytest.raises(http.client.RemoteDisconnected):
        reader.post()


@pytest.mark.parametrize(
    "fault",
    [faults.slow_first_byte(0.3), faults.stall(0.3), faults.stall(0.3, after=1)],
    ids=["first-byte", "before-the-end", "after-one-event"],
)
@pytest.mark.parametrize("path", [PATH, STREAM_PATH])
def test_pauses_take_their_time(
    emulator: Emulator, reader: Reader, fault: Fault, path: str
) -> None:
    emulator.reply("Slow.", fault=fault)
    start = time.monotonic()
    assert b"STOP" in reader.post(path).read()
    assert time.monotonic() - start >= 0.3


def test_a_stop_wakes_those_who_wait() -> None:
    with Emulator() as emulator, ThreadPoolExecutor(1) as pool:
        emulator.reply("late", fault=faults.slow_first_byte(600))
        waiting = pool.submit(lambda: Reader(emulator).post().status)
        while not emulator.requests:
            time.sleep(0.01)
        emulator.__exit__(None, None, None)
        # Not a TimeoutError, with which the client would give up by itself.
        assert isinstance(waiting.exception(timeout=60), ConnectionError)


def test_a_stream_may_end_in_good_order_but_early(emulator: Emulator) -> None:
    body = streamed(emulator, faults.ended_early())
    assert said(body) == TEXT
    assert b"finishReason" not in body


@pytest.mark.parametrize("path", [PATH, STREAM_PATH])
def test_json_may_be_broken(emulator: Emulator, reader: Reader, path: str) -> None:
    emulator.reply("Sunny.", fault=faults.broken_json())
    body = reader.post(path).read()
    last = body.rstrip().rpartition(b"data: ")[2]
    with pytest.raises(json.JSONDecodeError):
        json.loads(last)


@pytest.mark.parametrize(
    ("form", "beginning"),
    [
        ("event", b'data: {"error": {"code": 503'),
        ("tail", b'{\n  "error": {\n    "code": 503'),
        ("list", b'[\n  {\n    "error": {\n      "code": 503'),
    ],
)
def test_an_error_may_come_inside_a_stream(emulator: Emulator, form: Any, beginning: bytes) -> None:
    body = streamed(emulator, faults.error_in_stream(form))
    assert said(body) == TEXT
    assert body.rpartition(b"\r\n\r\n")[2].startswith(beginning) or beginning in body
    assert b"finishReason" not in body


@pytest.mark.parametrize(
    ("fault", "sign"),
    [
        pytest.param(faults.keep_alive_comments(), b": keep-alive\r\n\r\ndata: {", id="comments"),
        pytest.param(faults.empty_events(), b"data:\r\n\r\ndata: {", id="empty-events"),
        pytest.param(faults.no_space_after_data(), b'data:{"candidates"', id="no-space"),
        pytest.param(faults.bare_line_feeds(), b"}\n\ndata: {", id="line-feeds"),
        pytest.param(faults.several_data_lines(), b"data: {\r\ndata:  ", id="several-lines"),
    ],
)
def test_events_may_be_written_otherwise(emulator: Emulator, fault: Fault, sign: bytes) -> None:
    body = streamed(emulator, fault)
    assert sign in body
    assert b"STOP" in body


def test_splitting_changes_no_byte(emulator: Emulator) -> None:
    assert said(streamed(emulator, faults.split_anywhere(1))) == TEXT


def test_there_may_be_two_ends(emulator: Emulator) -> None:
    assert streamed(emulator, faults.two_finishes()).count(b"finishReason") == 2


def test_usage_may_fall(emulator: Emulator) -> None:
    body = streamed(emulator, faults.falling_usage()).decode()
    events = [json.loads(line[6:]) for line in body.split("\r\n") if line]
    prompts = [event["usageMetadata"]["promptTokenCount"] for event in events]
    assert prompts == sorted(prompts, reverse=True)
    assert prompts[0] > prompts[-1]


def test_gzip_and_a_wrong_name_keep_the_bytes(emulator: Emulator, client: genai.Client) -> None:
    packed = streamed(emulator, faults.gzipped())
    assert b"STOP" in gzip.decompress(packed)
    for fault in (faults.gzipped(), faults.wrong_content_type()):
        emulator.reply("Sunny.", fault=fault)
        assert client.models.generate_content(model=MODEL, contents="Hi").text == "Sunny."


def test_line_separators_stay_inside_their_string(emulator: Emulator) -> None:
    body = streamed(emulator, faults.line_separators())
    assert said(body).replace("\u2028\u0085", "") == TEXT
    assert "\u2028".encode() in body


def test_an_event_may_be_huge(emulator: Emulator) -> None:
    assert len(streamed(emulator, faults.huge_event())) > 20_000_000


@pytest.mark.parametrize(
    "fault",
    [
        faults.keep_alive_comments(),
        faults.several_data_lines(),
        faults.two_finishes(),
        faults.falling_usage(),
        faults.huge_event(),
    ],
)
def test_faults_of_streams_leave_a_whole_reply_alone(
    emulator: Emulator, client: genai.Client, fault: Fault
) -> None:
    emulator.reply("Sunny.", fault=fault)
    assert client.models.generate_content(model=MODEL, contents="Hi").text == "Sunny."


def test_a_prompt_may_be_too_long(client: genai.Client, emulator: Emulator) -> None:
    emulator.token_limit = 100
    with pytest.raises(errors.ClientError) as caught:
        client.models.generate_content(model=MODEL, contents="word " * 200)
    assert "exceeds the maximum number of tokens allowed (100)." in str(caught.value)


def test_two_faults_may_come_together(emulator: Emulator) -> None:
    fault = faults.both(faults.keep_alive_comments(), faults.split_anywhere(5))
    assert b": keep-alive" in streamed(emulator, fault)


# Other pages of the API, and requests that do not have their form.


def test_a_service_that_is_not_implemented_says_so(emulator: Emulator, reader: Reader) -> None:
    client = genai.Client(api_key=API_KEY, http_options={"base_url": emulator.url})
    with pytest.raises(
        errors.ServerError, match=r"does not implement POST .*mbed.*generateContent"
    ):
        client.models.embed_content(model="gemini-embedding-001", contents="Hello")
    assert emulator.refusals[-1].code == 501
    assert reader.post("/v1beta/openai/chat/completions").status == 501
    response = Reader(emulator).post("/v1beta/nonsense")  # as Google answers a wrong address
    assert response.status == 404
    assert b"<!DOCTYPE html>" in response.read()


def test_the_models_are_listed(client: genai.Client) -> None:
    listed = {model.name for model in client.models.list()}
    assert {f"models/{MODEL}", "models/gemini-4-argon"} <= listed
    assert client.models.get(model=MODEL).name == f"models/{MODEL}"


MALFORMED: dict[str, tuple[str, str, Any]] = {
    "a batch without request": (
        "POST",
        f"/v1/models/{MODEL}:batchGenerateContent",
        {"batch": {"inputConfig": {"requests": {"requests": [{"metadata": {"key": "a"}}]}}}},
    ),
    "a batch of nothing": ("POST", f"/v1/models/{MODEL}:batchGenerateContent", [1]),
    "a job of Vertex AI": ("POST", "/v1/projects/p/locations/l/batchPredictionJobs", [1]),
    "a page of batches": ("GET", "/v1/batches?pageSize=many", None),
    "a page of caches": ("GET", "/v1/cachedContents?pageToken=x", None),
    "an unknown field of a cache": ("POST", "/v1/cachedContents", {"displayname": "x"}),
    "a cache's time": (
        "POST",
        "/v1/cachedContents",
        {"model": MODEL, "contents": [{"parts": [{"text": "a " * 9000}]}], "ttl": "5 minutes"},
    ),
    "contents that are a text": (
        "POST",
        "/v1/interactions",
        {"model": MODEL, "input": [{"type": "user_input", "content": "Hello"}]},
    ),
    "settings that are a text": (
        "POST",
        "/v1/interactions",
        {"model": MODEL, "input": "Hello", "generation_config": "low"},
    ),
    "a format that is a text": (
        "POST",
        "/v1/interactions",
        {"model": MODEL, "input": "Hello", "response_format": "json"},
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_request_without_the_expected_form_is_refused(emulator: Emulator, case: str) -> None:
    method, path, body = MALFORMED[case]
    connection = Reader(emulator).connection
    payload = None if body is None else json.dumps(body)
    connection.request(method, path, payload, {"x-goog-api-key": API_KEY})
    response = connection.getresponse()
    assert response.status in {400, 404}, response.read()
    assert len(emulator.refusals) == 1


def test_an_upload_that_was_not_started_is_refused(emulator: Emulator, reader: Reader) -> None:
    response = reader.post("/upload/v1beta/files", {"file": {"display_name": "a.txt"}})
    assert response.status == 501
    assert b"X-Goog-Upload-Command: start" in response.read()
    assert len(emulator.refusals) == 1


def test_batches_and_caches_may_be_spelled_in_snake_case(
    emulator: Emulator, client: genai.Client
) -> None:
    """Google's examples for curl spell them so."""
    inline = {"requests": {"requests": [{"request": HELLO, "metadata": {"key": "a"}}]}}
    batch = {"batch": {"display_name": "night", "input_config": inline}}
    path = f"/v1beta/models/{MODEL}:batchGenerateContent"
    created = json.loads(Reader(emulator).post(path, batch).read())
    assert created["metadata"]["displayName"] == "night"
    assert created["metadata"]["batchStats"]["requestCount"] == "1"

    text = {"parts": [{"text": "a " * 9000}]}
    cache = {"model": f"models/{MODEL}", "system_instruction": text, "display_name": "handbook"}
    cache["expire_time"] = "2100-01-01T00:00:00Z"
    shown = json.loads(Reader(emulator).post("/v1beta/cachedContents", cache).read())
    assert shown["displayName"] == "handbook"
    assert shown["expireTime"].startswith("2100-01-01")
    assert [each.display_name for each in client.caches.list()] == ["handbook"]


def test_files_are_listed(client: genai.Client) -> None:
    assert list(client.files.list()) == []
    for name in ("first", "second"):
        file = io.BytesIO(b"Hello")
        client.files.upload(file=file, config={"mime_type": "text/plain", "display_name": name})
    found = client.files.list(config={"page_size": 1})
    assert [each.display_name for each in found] == ["second", "first"]


def test_an_uploaded_file_is_used_until_it_is_deleted(client: genai.Client) -> None:
    def upload(name: str) -> types.File:
        config: Any = {"mime_type": "text/plain", "display_name": name}
        return client.files.upload(file=io.BytesIO(name.encode()), config=config)

    first, second = upload("first"), upload("second")
    answer = client.models.generate_content(model=MODEL, contents=["What is it?", first])
    assert "You showed me: text/plain" in (answer.text or "")
    client.files.delete(name=first.name or "")
    third = upload("third")
    assert len({first.name, second.name, third.name}) == 3
    assert {file.display_name for file in client.files.list()} == {"second", "third"}
    with pytest.raises(errors.ClientError, match="permission to access the File"):
        client.models.generate_content(model=MODEL, contents=["What is it?", first])


def test_a_cache_belongs_to_one_model(client: genai.Client) -> None:
    config: Any = {"contents": ["word " * 2000]}
    cache = client.caches.create(model=MODEL, config=config)
    used: Any = {"cached_content": cache.name}
    assert client.models.generate_content(model=MODEL, contents="Hello", config=used).text
    words = r"GenerateContent request \(models/gemini-2.5-flash\) and CachedContent \(models/"
    with pytest.raises(errors.ClientError, match=words):
        client.models.generate_content(model="gemini-2.5-flash", contents="Hello", config=used)
    with pytest.raises(errors.ClientError, match="not supported for createCachedContent"):
        client.caches.create(model="gemini-3.8-flahs", config=config)
    with pytest.raises(errors.ClientError, match="invalid argument"):
        client.caches.create(model="gemini-4-argon", config=config)


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        ({}, "contents"),
        ({"generateContentRequest": HELLO}, "model"),
        ({"generate_content_request": {"model": f"models/{MODEL}"}}, "contents"),
    ],
)
def test_tokens_are_counted_of_contents_for_a_model(
    reader: Reader, body: dict[str, Any], missing: str
) -> None:
    response = reader.post(f"/v1beta/models/{MODEL}:countTokens", body)
    assert response.status == 400
    place = "CountTokensRequest." + ("generate_content_request." if body else "")
    message = json.loads(response.read())["error"]["message"]
    assert message == f"* {place}{missing}: {missing} is not specified\n"


def test_a_stream_that_does_not_ask_for_events_is_an_array(reader: Reader) -> None:
    """Recorded by llm-gemini, which reads it so."""
    response = reader.post(STREAM_PATH.removesuffix("?alt=sse"))
    assert response.headers["content-type"].startswith("application/json")
    events = json.loads(response.read())
    texts = [event["candidates"][0]["content"]["parts"][0]["text"] for event in events]
    assert "".join(texts) == "Hello! How can I help you today? You said: Hello."
    assert [event["candidates"][0].get("finishReason") for event in events][-2:] == [None, "STOP"]
