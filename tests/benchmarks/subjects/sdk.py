"""google-genai itself, the version that ours uses, with its typed objects prepared once."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from google import genai
from google.genai import types

from tests.benchmarks import workload
from tests.benchmarks.subjects import (
    CONCURRENT_CALLS,
    THREADED_CALLS,
    THREADS,
    Subject,
    Work,
    seen,
)
from tests.benchmarks.subjects.chat_models import make_bindable


def _content(content: dict[str, Any]) -> types.Content:
    return types.Content.model_validate(content)


def _config(tools: int) -> types.GenerateContentConfig:
    declared = [
        types.FunctionDeclaration(
            name=workload.tool_name(number),
            description=workload.tool_description(number),
            parameters_json_schema=workload.PARAMETERS,
        )
        for number in range(tools)
    ]
    return types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=declared)] if tools else None,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )


def _see(reply: types.GenerateContentResponse) -> Any:
    parts = _parts(reply)
    return seen(
        "".join(part.text or "" for part in parts),
        [(c.name or "", c.args) for part in parts if (c := part.function_call)],
    )


def _see_all(replies: list[types.GenerateContentResponse]) -> Any:
    return [_see(reply) for reply in replies]


def _see_stream(chunks: list[types.GenerateContentResponse]) -> Any:
    whole = _see_all(chunks)
    return {
        "text": "".join(chunk["text"] for chunk in whole),
        "calls": [call for chunk in whole for call in chunk["calls"]],
    }


def _content_of(reply: Any) -> Any:
    return reply.candidates[0].content


def _parts(reply: types.GenerateContentResponse) -> list[types.Part]:
    return _content_of(reply).parts or []


class SdkSubject(Subject):
    """`client.models.generate_content` and `generate_content_stream`."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        options = types.HttpOptions(base_url=url, api_version="v1beta")
        self._client = genai.Client(api_key=workload.API_KEY, http_options=options)

    def _arguments(self, model: str, tools: int, turns: int) -> dict[str, Any]:
        contents = workload.request_body(turns)["contents"]
        return {"model": model, "contents": [*map(_content, contents)], "config": _config(tools)}

    def call(self, tools: int, turns: int) -> Work:
        arguments = self._arguments(workload.TEXT_MODEL, tools, turns)
        return Work(lambda _: self._client.models.generate_content(**arguments), see=_see)

    def bind_new(self, kind: str, count: int) -> Work | None:
        if kind != "functions":
            return None

        def run(functions: list[Any]) -> types.Tool:
            read, client = types.FunctionDeclaration.from_callable, cast("Any", self._client)
            declared = [read(client=client, callable=function) for function in functions]
            return types.Tool(function_declarations=declared)

        return Work(
            run,
            lambda: make_bindable(kind, count),
            lambda tool: len(tool.function_declarations) > 0,
        )

    def loop(self, tools: int) -> Work:
        config = _config(tools)

        def run(_: Any) -> list[float]:
            start = time.process_time()
            contents: list[Any] = [types.UserContent(workload.QUESTION)]
            marks: list[float] = []
            for number in range(workload.LOOP_TURNS):
                reply = self._client.models.generate_content(
                    model=workload.LOOP_MODEL, contents=contents, config=config
                )
                said = _content_of(reply)
                call: Any = said.parts[0].function_call
                result = types.FunctionResponse(
                    id=call.id,
                    name=call.name,
                    response={"output": workload.result_value(number)},
                )
                answer = types.Content(role="user", parts=[types.Part(function_response=result)])
                contents += [said, answer]
                marks.append(time.process_time() - start)
            return marks

        return Work(run)

    def stream(self, model: str) -> Work:
        arguments = self._arguments(model, 0, 0)
        stream = self._client.models.generate_content_stream
        return Work(lambda _: list(stream(**arguments)), see=_see_stream)

    def astream(self, model: str) -> Work:
        arguments = self._arguments(model, 0, 0)

        async def read() -> list[types.GenerateContentResponse]:
            chunks = await self._client.aio.models.generate_content_stream(**arguments)
            return [chunk async for chunk in chunks]

        return Work(lambda _: self.wait_for(read()), see=_see_stream)

    def first_chunk(self, turns: int) -> Work:
        arguments = self._arguments(workload.STREAM_MODEL, 0, turns)

        def run(_: Any) -> Any:
            chunks = self._client.models.generate_content_stream(**arguments)
            return next(chunks), chunks

        def see(result: Any) -> Any:
            first, chunks = result
            chunks.close()
            return _see(first)["text"]

        return Work(run, see=see)

    def concurrently(self, tools: int) -> Work:
        arguments = self._arguments(workload.TEXT_MODEL, tools, 0)

        async def ask() -> list[types.GenerateContentResponse]:
            generate = self._client.aio.models.generate_content
            return list(
                await asyncio.gather(*(generate(**arguments) for _ in range(CONCURRENT_CALLS)))
            )

        return Work(lambda _: self.wait_for(ask()), see=_see_all)

    def in_threads(self, tools: int) -> Work:
        arguments = self._arguments(workload.TEXT_MODEL, tools, 0)

        def run(_: Any) -> list[types.GenerateContentResponse]:
            with ThreadPoolExecutor(THREADS) as pool:
                calls = [
                    pool.submit(self._client.models.generate_content, **arguments)
                    for _ in range(THREADED_CALLS)
                ]
                return [call.result() for call in calls]

        return Work(run, see=_see_all)


def make(url: str) -> SdkSubject:
    return SdkSubject(url)
