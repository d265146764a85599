"""Open a cassette for replay or recording, and save what was recorded without credentials.

A recording that ends with an exception never replaces a cassette: the old file is kept, and the new
recording is saved beside it. If there was no file, the recording becomes the cassette.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock
from urllib.parse import urlsplit, urlunsplit

from vcr.persisters.filesystem import CassetteNotFoundError
from vcr.record_mode import RecordMode
from vcr.request import Request
from vcr.serialize import deserialize, serialize

from langchain_gemini_tools.facts.environment import (
    KEY_VARIABLES,
    PROJECT_VARIABLES,
    environment_keys,
    environment_secrets,
)
from langchain_gemini_tools.facts.locks import ForkSafeLock
from langchain_gemini_tools.testing import files
from langchain_gemini_tools.testing.cassettes import (
    PLACEHOLDER,
    USAGE_VARIABLE,
    CassetteFileError,
    CassetteInUseError,
    SecretFoundError,
)
from langchain_gemini_tools.testing.files import (
    LOOPBACK,
    joined_text,
    parse_body,
    parse_json,
    render_body,
    write_file,
)
from langchain_gemini_tools.testing.redaction import (
    REQUEST_HEADERS,
    RESPONSE_HEADERS,
    Redactor,
    check_secrets,
    credentials_in,
    credentials_in_address,
    credentials_in_tools,
    is_gemini,
)
from langchain_gemini_tools.testing.tape import (
    Tape,
    body_bytes,
    has_client_form,
    matchers,
    renumber_call_ids,
    tool_call_ids,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from types import TracebackType

    from langchain_gemini_tools.facts.json_values import JsonObject

_logger = logging.getLogger(__name__)

FAILED = ".failed.yaml"
_MAX_NAME_BYTES = 255
"""On all common file systems."""

_lock = ForkSafeLock()
_open: list[str] = []
"""The open cassette. There is only one: vcrpy patches the HTTP libraries of the process."""


class Session:
    """An open cassette of vcrpy, adapted to Gemini.

    Args:
        vcr: The `vcr.VCR` with the user's settings.
        path: The cassette, as `vcr.use_cassette` accepts it.
        settings: Further arguments of `vcr.use_cassette`, and `secrets`: values to redact in
            addition to the credentials.
        has_failed: Whether the run failed without an exception that this object sees.
    """

    def __init__(
        self,
        vcr: Any,
        path: str | Path,
        settings: dict[str, Any],
        *,
        has_failed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._secrets = check_secrets(settings.pop("secrets", ()))
        self._has_failed = has_failed
        _prepare(vcr, self._secrets)
        config = vcr.get_merged_config(path=path, **settings)
        reads_file = not _replaces_file(config["record_mode"])
        self._persister = _DeferringPersister(config["persister"], reads_file=reads_file)
        # Always record; whether and where the recording is saved is decided in `__exit__`.
        config |= {"persister": self._persister, "record_on_exception": True}
        self._context = Tape.use(**config)
        self._path = str(path)
        self._stack = ExitStack()

    def __enter__(self) -> Tape:
        with ExitStack() as stack:
            stack.enter_context(_only_one_open(self._path))
            try:
                tape: Tape = stack.enter_context(self._context)
            except (CassetteFileError, OSError, ValueError) as error:
                raise CassetteFileError(f"{self._path} cannot be replayed. {error}") from error
            if tape.write_protected:
                stack.enter_context(_placeholders(for_a_project=tape.uses_vertex_projects))
            tape.secrets = self._secrets
            self._tape = tape
            self._stack = stack.pop_all()
        return tape

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)
        _note_usage(self._tape)
        if self._persister.recorded is None or self._tape.write_protected:
            return
        text = render_recording(self._persister.recorded, self._secrets)
        path = Path(self._tape.file_path)
        if error is None and not self._has_failed():
            _save(path, text)
            return
        beside = _beside(path) if path.exists() else path
        try:
            _save(beside, text)
            note = _explain_failed_run(path, beside)
        except CassetteFileError as failure:  # the error of the run matters more
            note = str(failure)
        _logger.warning("%s", note)
        if error is not None:
            error.add_note(note)


def _save(path: Path, text: str) -> None:
    try:
        write_file(path, text)
    except OSError as error:
        raise CassetteFileError(
            f"The recording was not saved: {path} cannot be written ({error.strerror}). Record "
            "again into a folder that you can write to."
        ) from error


def _beside(path: Path) -> Path:
    """Return where a failed recording is saved; its name must not be longer than files may have."""
    limit = _MAX_NAME_BYTES - len(FAILED)
    stem = path.stem.encode()[:limit].decode(errors="ignore")
    return path.with_name(stem + FAILED)


def _explain_failed_run(path: Path, beside: Path) -> str:
    if beside == path:
        return f"The run failed. What was recorded before the failure is in {path}."
    return (
        f"The run failed, so the cassette {path} was not changed. What was recorded before the "
        f"failure is in {beside}; rename it to use it."
    )


def _note_usage(tape: Tape) -> None:
    """Append the unused interactions to the file for the audit, if there is one."""
    if (path := os.environ.get(USAGE_VARIABLE)) and tape.write_protected:
        noted = {"cassette": str(Path(tape.file_path).resolve()), "unused": tape.unused}
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(noted) + "\n")


@contextmanager
def _only_one_open(path: str) -> Iterator[None]:
    with _lock:
        if _open:
            raise CassetteInUseError(
                f"The cassette {path!r} cannot be opened while {_open[0]!r} is open, because it "
                "would be unclear to which of them a request belongs. Close the first one. A test "
                "marked with `vcr` already has one."
            )
        _open.append(path)
    try:
        yield
    finally:
        _open.clear()


@contextmanager
def _placeholders(*, for_a_project: bool) -> Iterator[None]:
    """Provide credentials for clients that require some; a replay sends nothing."""
    with ExitStack() as stack:
        if for_a_project:
            found = SimpleNamespace(token=PLACEHOLDER, expired=False, quota_project_id=None)
            project = os.environ.get(PROJECT_VARIABLES[0], PLACEHOLDER)
            stack.enter_context(mock.patch("google.auth.default", return_value=(found, project)))
        elif not environment_keys():
            stack.enter_context(_placeholder_key())
        yield


@contextmanager
def _placeholder_key() -> Iterator[None]:
    """Set a key, and remove it unless the user has set another one since."""
    name = KEY_VARIABLES[0]
    before = os.environ.get(name)
    os.environ[name] = PLACEHOLDER
    try:
        yield
    finally:
        if os.environ.get(name) == PLACEHOLDER:
            del os.environ[name]
            os.environ.update({} if before is None else {name: before})


# vcrpy.


class _DeferringPersister:
    """vcrpy's persister: reads files, and stores a recording until the cassette is closed.

    vcrpy saves before it restores the HTTP libraries; a failure then would leave them patched.
    """

    def __init__(self, inner: Any, *, reads_file: bool) -> None:
        self._inner = inner
        self._reads_file = reads_file
        self.recorded: tuple[JsonObject, Any] | None = None

    def load_cassette(self, cassette_path: str, serializer: Any) -> Any:
        """Return the content of a file in vcrpy's form."""
        if not self._reads_file:
            raise CassetteNotFoundError
        return self._inner.load_cassette(cassette_path, serializer)

    def save_cassette(self, cassette_path: str, cassette_dict: JsonObject, serializer: Any) -> None:  # noqa: ARG002
        """Store what was recorded."""
        self.recorded = cassette_dict, serializer


class FilePersister:
    """Reads one file, in UTF-8."""

    @staticmethod
    def load_cassette(cassette_path: Path, serializer: Any) -> Any:
        """Return the content of the file in vcrpy's form."""
        try:
            text = cassette_path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise CassetteNotFoundError from None
        return deserialize(text, serializer)


def _prepare(vcr: Any, secrets: Collection[str]) -> None:
    """Adapt a `vcr.VCR` to Gemini. The user's own settings still take precedence."""
    vcr.register_serializer("yaml", files)
    ours = {matcher.__name__: matcher for matcher in matchers(secrets)}
    for name, matcher in ours.items():
        vcr.register_matcher(name, matcher)
    vcr.match_on = tuple(ours)


def _replaces_file(record_mode: Any) -> bool:
    """Whether a mode ignores the existing file."""
    return bool(record_mode == RecordMode.ALL)


# Saving.


def render_recording(recorded: tuple[JsonObject, Any], secrets: Iterable[str] = ()) -> str:
    """Return the text to save: everything that a replay needs, without credentials.

    Raises:
        SecretFoundError: The text still contains something that looks like a credential.
    """
    cassette, serializer = recorded
    values = [*secrets, *environment_secrets()]
    for request in cassette["requests"]:
        values += credentials_in(request.headers)
        values += credentials_in_tools(parse_json(body_bytes(request)))
    maybe = [v for request in cassette["requests"] for v in credentials_in_address(request.uri)]
    redactor = Redactor(values, maybe)
    responses = [_redact_response(response, redactor) for response in cassette["responses"]]
    received = b"".join(response["body"]["string"] for response in responses)
    requests = [_redact_request(request, redactor, received) for request in cassette["requests"]]
    _check_for_secrets(requests, responses, redactor)
    redacted = {**cassette, "requests": requests, "responses": responses}
    return str(serialize(redacted, serializer))


def _redact_request(request: Any, redactor: Redactor, received: bytes) -> Any:
    headers = _harmless(request.headers, REQUEST_HEADERS, redactor)
    form = _redact_body(body_bytes(request), redactor)
    if form and "json" in form:
        ids = tool_call_ids(form["json"])
        from_api = {one for one in ids if not has_client_form(one) or one.encode() in received}
        form = {"json": renumber_call_ids(form["json"], from_api)}
    uri = redactor.uri(_without_local_port(request.uri))
    return Request(request.method.upper(), uri, parse_body(form), headers)


def _redact_response(response: JsonObject, redactor: Redactor) -> JsonObject:
    raw, headers = _decompress(response)
    return {
        "status": response["status"],
        "headers": _harmless(headers, RESPONSE_HEADERS, redactor),
        "body": {"string": parse_body(_redact_body(raw, redactor))},
    }


def _redact_body(raw: bytes, redactor: Redactor) -> JsonObject | None:
    form = render_body(raw)
    if form is None or "base64" in form:  # binary: checked for secrets, but not changed
        return form
    redacted: JsonObject = redactor.value(form)
    return redacted


def _harmless(headers: Any, allowed: frozenset[str], redactor: Redactor) -> JsonObject:
    kept = {name.lower(): value for name, value in headers.items() if name.lower() in allowed}
    return {
        name: [redactor.text(str(v)) for v in ([value] if isinstance(value, str) else value)]
        for name, value in kept.items()
    }


def _decompress(response: JsonObject) -> tuple[bytes, JsonObject]:
    """Return the decompressed body, and the headers that apply to it."""
    raw = response["body"].get("string") or b""
    raw = raw.encode() if isinstance(raw, str) else bytes(raw)
    headers = {name.lower(): value for name, value in response["headers"].items()}
    encoding = headers.pop("content-encoding", None)
    if not encoding:
        return raw, headers
    for name in ("httpx2", "httpx"):
        try:
            library = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        names = ", ".join([encoding] if isinstance(encoding, str) else encoding)
        with suppress(library.DecodingError):  # aiohttp passes bodies on decompressed
            raw = library.Response(200, headers={"content-encoding": names}, content=raw).content
        return raw, headers
    return raw, {**headers, "content-encoding": encoding}


def _check_for_secrets(
    requests: list[Any], responses: list[JsonObject], redactor: Redactor
) -> None:
    found: list[str] = []
    for number, (request, response) in enumerate(zip(requests, responses, strict=True), start=1):
        sent = render_body(request.body)
        received = render_body(response["body"]["string"])
        sides = {
            "request": {"uri": request.uri, "body": sent, "joined text": joined_text(sent)},
            "response": {
                "status": response["status"],
                "headers": response["headers"],
                "body": received,
                "joined text": joined_text(received),
            },
        }
        found += [f"interaction {number}, {leak}" for leak in redactor.leaks(sides)]
    if found:
        more = f" (and {len(found) - 5} more)" if len(found) > 5 else ""
        raise SecretFoundError(
            "The recording contains something that looks like a credential, so it was not saved: "
            f"{'; '.join(found[:5])}{more}. Remove it from what the program sends, and record "
            "again."
        )


def _without_local_port(uri: str) -> str:
    """Return an address of this machine without its port, which changes from run to run."""
    split = urlsplit(uri)
    if is_gemini(uri) and LOOPBACK.fullmatch(split.hostname or ""):
        return urlunsplit((split.scheme, "127.0.0.1", split.path, split.query, ""))
    return uri
