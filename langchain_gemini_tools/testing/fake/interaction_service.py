"""The requests of the Interactions API: create, read, resume, cancel and delete.

Interactions are stored until the server stops. GET, cancel and DELETE were not recorded: they
follow the SDK and Google's documentation.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.testing.fake.answer import prompt_tokens
from langchain_gemini_tools.testing.fake.ask import Model
from langchain_gemini_tools.testing.fake.interaction import (
    Stored,
    read_ask,
    write_events,
    write_interaction,
    write_steps,
)
from langchain_gemini_tools.testing.fake.responses import (
    JsonObject,
    Outgoing,
    Refusal,
    event_stream,
    invalid,
    whole,
)
from langchain_gemini_tools.testing.fake.rules.declarations import check_declarations
from langchain_gemini_tools.testing.fake.rules.interactions import (
    check_background,
    check_end,
    check_fields,
    check_steps,
    check_thinking,
    read_steps,
    unknown_interaction,
)
from langchain_gemini_tools.testing.fake.rules.payload import check_length, check_model

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from langchain_gemini_tools.testing.fake.ask import Ask
    from langchain_gemini_tools.testing.fake.memory import Foreign, Memory
    from langchain_gemini_tools.testing.fake.script import Reply
    from langchain_gemini_tools.testing.fake.sockets import Route

_RUNNING = ("queued", "in_progress")


class InteractionService:
    """Serves the Interactions API.

    Args:
        memory: What the server has sent.
        models: Names of more models.
        accepts_foreign: Which signatures are accepted that this server did not issue.
    """

    def __init__(self, memory: Memory, models: Collection[str], accepts_foreign: Foreign) -> None:
        self.stored: dict[str, Stored] = {}
        self._memory = memory
        self._models = models
        self._accepts_foreign = accepts_foreign

    def serve(
        self,
        route: Route,
        query: Mapping[str, str],
        raw: bytes,
        answer: Callable[[Ask], Reply],
        excuse: Callable[[Refusal], object] | None,
    ) -> Outgoing:
        """What one request gets back.

        Args:
            route: Where it goes.
            query: What follows the path.
            raw: Its body.
            answer: Finds the next reply.
            excuse: Called with a refusal whose rule is inferred, instead of raising it.
        """
        if route.method == "createInteraction":
            return self._create(route, _read(raw), answer, excuse)
        if (known := self.stored.get(route.model)) is None:
            raise unknown_interaction(route.model)
        if route.method == "deleteInteraction":
            del self.stored[route.model]
            return whole(200, {})
        if route.method == "cancelInteraction":
            if known.body["status"] in _RUNNING:
                known.body |= {"status": "cancelled"}
                known.later = None
            return whole(200, known.body)
        return _read_stored(known, query)

    def _create(
        self,
        route: Route,
        body: JsonObject,
        answer: Callable[[Ask], Reply],
        excuse: Callable[[Refusal], object] | None,
    ) -> Outgoing:
        try:
            check_fields(body)
        except Refusal as refusal:
            if excuse is None or refusal.evidence != "inferred":
                raise
            excuse(refusal)
        model = self._model(body, route)
        check_thinking(body, None if body.get("agent") else model)
        check_background(body, None if body.get("agent") else model)
        given = read_steps(body["input"]) if "input" in body else []
        steps = [*self._earlier(body), *given]
        try:
            check_steps(steps, model, self._memory, accepts_foreign=self._accepts_foreign)
            check_end(body, steps, self.stored)
        except Refusal as refusal:
            if excuse is None or refusal.evidence != "inferred":
                raise
            excuse(refusal)
        ask = read_ask(body, steps, model, route.backend, route.version)
        check_declarations(ask)
        check_length(prompt_tokens(ask), 1_048_576)
        return self._answer(body, ask, Stored({}, steps, given), answer(ask))

    def _model(self, body: JsonObject, route: Route) -> Model:
        if agent := body.get("agent"):
            return Model(agent)
        name = str(body.get("model", ""))
        if name.startswith("models/"):
            raise invalid("A model is named without `models/`")
        return check_model(name, route.version, route.backend, "interactions", self._models)

    def _earlier(self, body: JsonObject) -> list[JsonObject]:
        previous = body.get("previous_interaction_id")
        if previous is None:
            return []
        if previous not in self.stored:
            raise unknown_interaction(previous)
        return self.stored[previous].steps

    def _answer(self, body: JsonObject, ask: Ask, stored: Stored, reply: Reply) -> Outgoing:
        if reply.body is not None or reply.events is not None:
            raw = self._raw(body, reply, stored)
            outgoing = raw.with_headers(**reply.headers)
            return reply.fault(outgoing) if reply.fault else outgoing
        said = reply.answer_to(ask)
        steps = write_steps(said, ask, self._memory)
        name = f"v1_{self._memory.new_id()}"
        keys = ("previous_interaction_id", "agent")
        extra = {key: body[key] for key in keys if key in body}
        interaction = write_interaction(said, ask, steps, name, extra)
        if body.get("agent"):
            del interaction["model"]
        if body.get("store") is False and not body.get("stream"):
            del interaction["id"]  # recorded once, in a fixture of vercel/ai; of a stream not known
        self._store(body, stored, interaction)
        if body.get("background"):
            stored.later = interaction
            # Recorded: an agent's first reply has neither steps nor usage.
            running = {**interaction, "status": "in_progress"}
            stored.body = {k: v for k, v in running.items() if k not in {"steps", "usage"}}
            stored.events = write_events(interaction, ask, said, has_ids=True)
            streams = body.get("stream")
            outgoing = event_stream(stored.events) if streams else whole(200, stored.body)
        elif body.get("stream"):
            outgoing = event_stream(write_events(interaction, ask, said))
        else:
            outgoing = whole(200, interaction)
        outgoing = outgoing.with_headers(**reply.headers)
        return reply.fault(outgoing) if reply.fault else outgoing

    def _raw(self, body: JsonObject, reply: Reply, stored: Stored) -> Outgoing:
        """A reply that a test wrote as the wire spells it."""
        if reply.events is not None and body.get("stream"):
            said = [event.get("interaction") for event in reply.events if isinstance(event, dict)]
            ended: JsonObject = next((each for each in reversed(said) if each), {})
            if "id" in ended:
                self._store(body, stored, ended)
            return event_stream(list(reply.events))
        if isinstance(reply.body, dict) and "id" in reply.body:
            self._store(body, stored, reply.body)
        return whole(reply.status, reply.body)

    def _store(self, body: JsonObject, stored: Stored, interaction: JsonObject) -> None:
        if body.get("store") is not False:  # documented: true by default
            stored.body = interaction
            stored.steps = [*stored.steps, *interaction.get("steps", [])]
            self.stored[interaction["id"]] = stored


def _read_stored(known: Stored, query: Mapping[str, str]) -> Outgoing:
    """What GET returns: the interaction, or its events after one of them.

    The parameters are the SDK's. It says that a stream continues "from the chunk after the event
    marked by the event id". What the API says about an unknown id is not known.
    """
    last = query.get("last_event_id")
    if query.get("stream") != "true":
        if last is not None:
            raise invalid("last_event_id needs stream=true", evidence="documented")
        return whole(200, known.read())
    ids = [f"e{n}" for n in range(1, len(known.events))]
    if not known.events or last not in (None, *ids):
        raise invalid("last_event_id is the id of an event of this interaction")
    return event_stream(known.events[ids.index(last) + 1 if last else 0 :])


def _read(raw: bytes) -> JsonObject:
    try:
        body: Any = json.loads(raw)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise invalid("The body is not a JSON object")
    return body
