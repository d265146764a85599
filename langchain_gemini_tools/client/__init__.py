"""The seam to google-genai: a finished body in, the server's JSON out, nothing interpreted.

gemini_client.py   GeminiClient: send, stream, and their async twins. Start reading here
transport.py       the HTTP clients under the SDK, which carry the bodies past it
sse.py             bytes of a stream -> the texts of its events
replies.py         texts -> JSON objects, or the error that the answer is
borrowed.py        a client of the user's own, and what using it costs
redaction.py       what no message may show
"""

from langchain_gemini_tools.client.gemini_client import ClientSettings, GeminiClient

__all__ = ["ClientSettings", "GeminiClient"]
