"""A request to a client that is closed meanwhile. Everything else is in the integration tests."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_gemini_tools.client.pool import LIBRARIES
from langchain_gemini_tools.client.responses import Deadline
from langchain_gemini_tools.client.transport import Envelope, PendingRequest

URL = "http://127.0.0.1/v1beta/models/a:generateContent"


@pytest.mark.parametrize("name", LIBRARIES)
async def test_closing_a_client_before_it_sends_counts_as_a_lost_connection(name: str) -> None:
    library: Any = pytest.importorskip(name)
    envelope = Envelope(library.URL(URL), library.Headers())
    closed, aclosed = library.Client(), library.AsyncClient()
    closed.close()
    await aclosed.aclose()
    with pytest.raises(ConnectionError, match="closed before sending"):
        PendingRequest(b"{}", Deadline(5)).send(closed, envelope)
    with pytest.raises(ConnectionError, match="closed before sending"):
        await PendingRequest(b"{}", Deadline(5)).asend(aclosed, envelope)
