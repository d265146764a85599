"""Imports, and the first call of a process: each one in a fresh interpreter."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from tests.benchmarks.workload import API_KEY, QUESTION, TEXT_MODEL

_IMPORTS = {
    "peer": "from langchain_google_genai import ChatGoogleGenerativeAI as Model",
    "sdk": "from google import genai",
    "floor": "from tests.benchmarks.subjects.floor import FloorChatModel as Model",
    "ours": "from langchain_gemini_tools import ChatGemini as Model",
}
_CALLS = {
    "peer": "Model(model={model!r}, google_api_key={key!r}, base_url={url!r}).invoke({question!r})",
    "sdk": (
        "client = genai.Client(api_key={key!r}, http_options={{'base_url': {url!r}}})\n"
        "client.models.generate_content(model={model!r}, contents={question!r})"
    ),
    "floor": "Model(model={model!r}, url={url!r}).invoke({question!r})",
    "ours": "Model(model={model!r}, api_key={key!r}, base_url={url!r}).invoke({question!r})",
}
# The connection is opened when everything else is ready, so it stands for the first byte.
_SCRIPT = """
import json, sys, time
times = {{}}
def listen(event, _):
    if event == "socket.connect":
        times.setdefault("first_byte", time.process_time() - start)
sys.addaudithook(listen)
start = time.process_time()
{imports}
times["import"] = time.process_time() - start
times["sdk_is_loaded"] = "google.genai" in sys.modules
{call}
print(json.dumps(times))
"""
SUBJECTS = tuple(_IMPORTS)


def _environment() -> dict[str, str]:
    """Let Python write and reuse bytecode, as for installed packages."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def measure(subject: str, python: str, url: str) -> dict[str, Any]:
    """Return the CPU seconds of the import, and of the rest until the first byte is sent."""
    values = {"model": TEXT_MODEL, "key": API_KEY, "url": url, "question": QUESTION}
    script = _SCRIPT.format(imports=_IMPORTS[subject], call=_CALLS[subject].format(**values))
    command = [python, "-c", script]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=True)
    times: dict[str, Any] = json.loads(done.stdout)
    return times
