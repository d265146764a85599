"""`FakeGemini`: a strict Gemini on this machine, for tests and notebooks without a key."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import os
import sys
import threading
import warnings
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from langchain_gemini_tools.facts.credentials import FAKE_KEY, FAKE_TOKEN
from langchain_gemini_tools.facts.environment import (
    ACCOUNT_VARIABLE,
    BASE_URL_VARIABLES,
    GATEWAY_VARIABLE,
    KEY_VARIABLES,
    RETRY_DELAYS_VARIABLE,
    VERTEX_VARIABLES,
)
from langchain_gemini_tools.testing.fake.answer import may_be_foreign
from langchain_gemini_tools.testing.fake.prompted import read_prompted, written_calls
from langchain_gemini_tools.testing.fake.responses import Refusal, whole
from langchain_gemini_tools.testing.fake.script import LongAnswer, Reply
from langchain_gemini_tools.testing.fake.server import Emulator

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from langchain_gemini_tools.testing.fake.ask import Ask
    from langchain_gemini_tools.testing.fake.request import Request
    from langchain_gemini_tools.testing.fake.responses import Outgoing

    Responder = Callable[[Request], "Reply | str | None"]

_HIDDEN = (
    *(*KEY_VARIABLES, *VERTEX_VARIABLES, ACCOUNT_VARIABLE),
    GATEWAY_VARIABLE,  # other clients would prefer it to the address of the fake
)
_MAX_REPETITIONS = 30
"""How often the simple rules make the same call before they give up. The limits that tests set for
an agent are usually lower, so that the agent ends first."""
_PROXY_EXCEPTIONS = ("no_proxy", "NO_PROXY")


_logger = logging.getLogger(__name__)


class FakeGeminiError(AssertionError):
    """The script of `FakeGemini` and the requests do not agree."""


_lock = threading.Lock()
_replaced: list[dict[str, str | None]] = []
"""What each open block has replaced in the environment, which belongs to the whole process."""


@contextmanager
def _environment(values: dict[str, str | None]) -> Iterator[None]:
    """Replace environment variables, and restore them.

    Blocks of several threads, and servers that `start` has started, may end in any order.
    """
    with _lock:
        before = {name: os.environ.get(name) for name in values}
        _update(values)
        _replaced.append(before)
    try:
        yield
    finally:
        with _lock:
            place = next(n for n, each in enumerate(_replaced) if each is before)
            del _replaced[place]
            if place == len(_replaced):
                _update(before)
            else:  # a later one is in use, and restores these values
                _replaced[place].update(before)


def _update(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def environment_for(url: str) -> dict[str, str | None]:
    """Return the variables that make clients use a server at this address; None removes one."""
    exceptions = {
        name: ",".join(filter(None, [os.environ.get(name), "127.0.0.1"]))
        for name in _PROXY_EXCEPTIONS
    }
    return {
        **dict.fromkeys(_HIDDEN, None),
        **exceptions,
        **dict.fromkeys(BASE_URL_VARIABLES, url),
        KEY_VARIABLES[0]: FAKE_KEY,
        RETRY_DELAYS_VARIABLE: "off",
    }


@contextmanager
def _buckets(folder: Path) -> Iterator[None]:
    """Make fsspec use a folder in place of Google Cloud Storage."""
    try:
        fsspec = importlib.import_module("fsspec")
        local = importlib.import_module("fsspec.implementations.local")
    except ImportError as error:
        raise ImportError(
            "bucket_folder needs fsspec: pip install 'langchain-gemini-tools[vertex-batch]'."
        ) from error
    is_open = True

    class LocalBuckets(local.LocalFileSystem):  # type: ignore[misc, name-defined]
        """`gs://bucket/file` is a file in the folder."""

        protocol = ("gs", "gcs")
        cachable = False  # a file system of an earlier block must not be used again

        def __init__(self, **_: object) -> None:
            if not is_open:
                raise ImportError("gs:// needs gcsfs.")  # FakeGemini has been stopped
            super().__init__(auto_mkdir=True)

        @classmethod
        def _strip_protocol(cls, path: object) -> str:
            text = str(path)
            inside = text.partition("://")[2]
            return f"{folder}/{inside}".rstrip("/") if inside else text.rstrip("/")

    before = fsspec.registry.get("gs")
    fsspec.register_implementation("gs", LocalBuckets, clobber=True)
    try:
        yield
    finally:
        is_open = False
        with suppress(ImportError):  # the folder is still registered, and raises this error
            real = before or importlib.import_module("gcsfs").GCSFileSystem
            fsspec.register_implementation("gs", real, clobber=True)


class FakeGemini(Emulator):
    """A strict Gemini on this machine, which needs no key. It refuses what Gemini refuses.

    ```python
    with FakeGemini() as gemini:
        gemini.reply(calls=[("get_weather", {"city": "Oslo"})])
        gemini.reply("It is sunny in Oslo.")
        agent = create_agent(ChatGemini(model="gemini-3.8-flash"), tools=[get_weather])
        agent.invoke({"messages": "What is the weather in Oslo?"})
        assert gemini.requests[1].function_responses == [("get_weather", "Sunny in Oslo")]
    ```

    Inside the block, `ChatGemini`, the google-genai SDK and other clients that read
    `GOOGLE_GEMINI_BASE_URL` and `GOOGLE_VERTEX_BASE_URL` use it automatically. These variables and
    a placeholder key are set, and real keys are hidden, for the whole process, other threads
    included. The end of the block restores them. A model made inside the block does not work after
    it.

    Without a script, simple rules answer: they call the tools that the prompt is about and then
    quote their results. They make the same call at most 30 times in a row. With a script, each
    request gets the next reply. A request beyond the script is refused, and unused replies raise an
    error at the end.

    It listens on 127.0.0.1 only. Keys that are sent to it are not stored.

    Args:
        respond: A function that answers every request that has no scripted reply. It is called with
            the request and returns a text, a `Reply`, or None for the simple rules.
        strict: False turns the rules that are inferred into warnings. See
            `python -m langchain_gemini_tools.testing serve --rules`.
        allow_unused: Whether replies may be unused at the end.
        models: Names of more models. They behave like the newest Gemini.
        set_environment: Whether to set the environment variables. If not, pass `url` as `base_url`.
        port: The port to listen on; 0 for a free one.
        bucket_folder: A folder that replaces Google Cloud Storage, for batch jobs on Vertex AI:
            `gs://bucket/file` is `bucket_folder/bucket/file`. It needs fsspec.

    Attributes:
        requests: Every request, also those that were refused.
        refusals: Every refusal, with the message of the API in `message`. Where the message does
            not say what is wrong, `why` does, and a warning is logged.
        warnings: What broke an inferred rule, with `strict=False`.
    """

    def __init__(  # noqa: PLR0913 - settings, each with a name
        self,
        respond: Responder | None = None,
        *,
        strict: bool = True,
        allow_unused: bool = False,
        models: Collection[str] = (),
        set_environment: bool = True,
        port: int = 0,
        bucket_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if respond is not None and (not callable(respond) or inspect.iscoroutinefunction(respond)):
            raise TypeError(
                f"respond must be a function that is not async, not {respond!r:.100}. To script "
                "single answers, use reply()."
            )
        if isinstance(models, str):
            raise TypeError(f"models must be a list of names: models=[{models!r}].")
        super().__init__(
            models=models,
            strict=strict,
            accepts_any_key=True,
            accepts_foreign_signatures=may_be_foreign,  # histories may be the real API's
            port=port,
        )
        self.stored_credentials = {FAKE_KEY, FAKE_TOKEN}
        self.respond = respond
        self.allow_unused = allow_unused
        self._sets_environment = set_environment
        self._block = ExitStack()
        """What the end of the block restores."""
        if bucket_folder is not None:
            self.batches.bucket_folder = Path(bucket_folder).absolute()
        self._is_scripted = False
        self._unanswered: list[str] = []
        self._replayed_before = 0

    # The block

    def __enter__(self) -> Self:
        """Start the server and set the environment."""
        self._replayed_before = _replayed_responses()
        with ExitStack() as block:  # undone if something fails, such as an import
            super().__enter__()
            block.push(super().__exit__)
            if self._sets_environment:
                block.enter_context(_environment(environment_for(self.url)))
            if self.batches.bucket_folder is not None:
                block.enter_context(_buckets(self.batches.bucket_folder))
            self._block = block.pop_all()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Stop the server, restore the environment and check that the script was used."""
        self._block.close()
        if error is None:
            self.check()

    async def __aenter__(self) -> Self:
        """Enter as `with` does."""
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Exit as `with` does."""
        self.__exit__(kind, error, traceback)

    def start(self) -> Self:
        """Start without a block, for notebooks and `setUp` methods; `stop` ends it."""
        return self.__enter__()

    def stop(self, *, check: bool = True) -> None:
        """Stop what `start` started.

        Args:
            check: Whether to check that the script was used, as the end of a block does.
        """
        self._block.close()
        if check:
            self.check()

    def check(self) -> None:
        """Check that the whole script was used, as the end of the block does.

        Raises:
            FakeGeminiError: Replies are unused, or the script had none left for a request.
        """
        for broken in dict.fromkeys(self.warnings):
            warnings.warn(f"Gemini would probably refuse this request: {broken}", stacklevel=3)
        if unmet := self.unmet_faults:
            warnings.warn(f"These faults did not occur: {', '.join(unmet)}.", stacklevel=3)
        if self._unanswered:
            raise FakeGeminiError(self._unanswered[0])
        is_replay = _replayed_responses() > self._replayed_before
        if self._replies and not self.allow_unused and not is_replay:
            count, first = len(self._replies), _show(self._replies[0])
            raise FakeGeminiError(
                f"{_count(count, 'scripted reply', 'scripted replies')} not used after "
                f"{_count(len(self.requests), 'request')}. The first is {first}. Remove it, or "
                "allow it: FakeGemini(allow_unused=True), or fake_gemini.allow_unused = True with "
                "the fixture."
            )

    @property
    def api_key(self) -> str:
        """The placeholder key, for clients that do not read it from the environment."""
        return FAKE_KEY

    @property
    def credentials(self) -> Any:
        """Credentials for Vertex AI: an object of `google.auth` with a placeholder token."""
        oauth2 = __import__("google.oauth2.credentials", fromlist=["Credentials"])
        return oauth2.Credentials(FAKE_TOKEN)

    # The script

    def script(self, *replies: Reply | LongAnswer) -> None:
        """Script the next replies: `gemini.script(Reply("Yes."), Reply("No."))`."""
        super().script(*replies)
        self._is_scripted = True

    def _unscripted(self, ask: Ask, request: Request) -> Reply:
        if self.respond is not None:
            reply = self._call_respond(self.respond, request)
            if reply is not None:
                return Reply(reply) if isinstance(reply, str) else reply
        elif self._is_scripted:
            raise self._unanswerable(
                f"The script of FakeGemini has no reply for request {len(self.requests)} "
                f"({request.model}, prompt {request.prompt[:60]!r}). Script one more reply, or "
                "answer further requests with a function: FakeGemini(respond=...)."
            )
        reply = super()._unscripted(ask, request)
        self._check_progress(reply, ask)
        return reply

    def _check_progress(self, reply: Reply, ask: Ask) -> None:
        """Stop an agent that gets the same calls again and again: its own limit may be thousands.

        The simple rules do not read errors, so they repeat what the agent rejects.
        """
        calls = written_calls(reply.answer) if reply.answer else []
        if calls and min(map((read_prompted(ask) or ask).count_calls, calls)) >= _MAX_REPETITIONS:
            name, args = calls[0]["name"], json.dumps(calls[0]["args"], ensure_ascii=False)
            raise self._unanswerable(
                f"Without a script, FakeGemini has called {name}({args:.200}) {_MAX_REPETITIONS} "
                "times since the user last said something, and would call it again: the request "
                "forces a call, or the agent rejects this one. Script what the model answers, with "
                "reply(...) or FakeGemini(respond=...)."
            )

    def _call_respond(self, respond: Responder, request: Request) -> Reply | str | None:
        # Without the lock: the function may use a model that asks this server.
        self._lock.release()
        try:
            reply = respond(request)
        except Exception as error:
            raise self._unanswerable(
                f"The function that answers for FakeGemini failed: {error!r}"
            ) from error
        finally:
            self._lock.acquire()
        if not isinstance(reply, Reply | str | None):
            raise self._unanswerable(
                "The function that answers for FakeGemini returned a value of type "
                f"{type(reply).__name__}. Return a text, a Reply or None."
            )
        return reply

    def _note(self, refusal: Refusal) -> None:
        super()._note(refusal)
        if refusal.why and refusal.why != refusal.message:  # what the client gets does not say it
            _logger.warning("Request %d is refused: %s", len(self.requests), refusal.why)

    def _fail_to_answer(self, failure: Exception) -> Outgoing:
        refusal = self._unanswerable(
            f"FakeGemini could not answer request {len(self.requests)}: {failure!r}. Check the "
            "arguments of its reply."
        )
        return whole(refusal.code, refusal.body)

    def _unanswerable(self, why: str) -> Refusal:
        """Return a refusal that no client repeats; the end of the block raises an error, too."""
        self._unanswered.append(why)
        return Refusal(why, 400, status="FAILED_PRECONDITION")


def _show(reply: Reply | LongAnswer) -> str:
    if isinstance(reply, LongAnswer):
        return "a long reply"
    named = {"text": reply.text, "calls": [*reply.calls], "structured": reply.structured}
    shown = ", ".join(f"{name}={value!r}" for name, value in named.items() if value)
    return f"reply({shown[:100]})"


def _replayed_responses() -> int:
    """Return how many responses cassettes have replayed in this process."""
    tape = sys.modules.get("langchain_gemini_tools.testing.tape")
    return tape.Tape.replayed if tape is not None else 0


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
