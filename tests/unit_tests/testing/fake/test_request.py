from __future__ import annotations

import json

import pytest

from langchain_gemini_tools.testing.fake.request import Request, Route, read_route


@pytest.mark.parametrize(
    ("path", "route"),
    [
        (
            "/v1/models/gemini-3-flash:generateContent",
            Route("gemini", "v1", "gemini-3-flash", "generateContent"),
        ),
        (
            "/proxy/a/v1beta/models/gemini-3-flash:streamGenerateContent",
            Route("gemini", "v1beta", "gemini-3-flash", "streamGenerateContent"),
        ),
        (
            "/v1beta1/projects/p/locations/l/publishers/google/models/gemini-3-flash:countTokens",
            Route("vertex", "v1beta1", "gemini-3-flash", "countTokens"),
        ),
        (
            "/v1beta1/publishers/google/models/gemini-3-flash:generateContent",
            Route("vertex", "v1beta1", "gemini-3-flash", "generateContent"),
        ),
        ("/v2/models/gemini-3-flash:generateContent", None),
        ("/v1/models/gemini-3-flash:embedContent", None),
        ("/v1/models/a/b:generateContent", None),
    ],
)
def test_paths_lead_to_models(path: str, route: Route | None) -> None:
    assert read_route("POST", path) == route


@pytest.mark.parametrize(
    ("page", "service", "operation"),
    [
        ("GET /v1beta/models", "models", "list"),
        ("GET /v1beta/models/gemini-3-flash", "models", "get"),
        ("POST /v1beta/models/gemini-3-flash:batchGenerateContent", "batches", "create"),
        ("GET /proxy/v1beta/batches", "batches", "list"),
        ("POST /v1beta/batches/1:cancel", "batches", "cancel"),
        ("POST /upload/v1beta/files", "batches", "upload"),
        ("GET /download/v1beta/files/1:download", "batches", "download"),
        ("DELETE /v1beta/files/1", "batches", "delete_file"),
        ("GET /v1beta/files", "batches", "list_files"),
        ("POST /v1/projects/p/locations/l/batchPredictionJobs", "batches", "create"),
        ("DELETE /v1/projects/p/locations/l/batchPredictionJobs/1", "batches", "delete"),
        ("PATCH /v1beta/cachedContents/1", "caches", "update"),
        ("POST /v1beta1/projects/p/locations/l/cachedContents", "caches", "create"),
        ("POST /v1beta/interactions", "interactions", "create"),
        ("POST /v1beta/interactions/1/cancel", "interactions", "cancel"),
        ("DELETE /v1beta1/projects/p/locations/l/interactions/1", "interactions", "delete"),
    ],
)
def test_paths_lead_to_services(page: str, service: str, operation: str) -> None:
    method, path = page.split()
    route = read_route(method, path)
    assert route is not None
    assert (route.service, route.method) == (service, operation)
    assert path.split("/v1", 1)[1].partition("/")[2].startswith(route.resource)
    assert route.backend == ("vertex" if "projects/" in path else "gemini")


@pytest.mark.parametrize(
    "page",
    [
        "POST /v1beta/files",
        "PATCH /v1beta/files",
        "POST /v1beta/batchPredictionJobs",
        "GET /v1/projects/p/locations/l/batches",
        "POST /v1/projects/p/locations/l/models/gemini-3-flash:generateContent",
        "PATCH /v1beta/interactions/1",
    ],
)
def test_other_pages_do_not_exist(page: str) -> None:
    assert read_route(*page.split()) is None


def test_an_interaction_without_the_expected_form_has_empty_views() -> None:
    body = {"model": "gemini-3.8-flash", "input": "Hello", "generation_config": "low"}
    raw = json.dumps(body).encode()
    request = Request("POST", "/v1beta/interactions", {}, {}, "gemini-3.8-flash", "gemini", raw)
    assert (request.prompt, request.contents, request.generation_config) == ("", [], {})
