"""The seam to google-genai: a finished body in, the server's JSON out, nothing interpreted.

gemini_client.py   GeminiClient: send, stream, and their async twins. Start reading here
settings.py        where the API is and who is calling
sdk.py             the SDK's client, built from the settings at the first call
transport.py       what the SDK sends through, which carries the bodies past it
pool.py            the HTTP clients behind: one for threads, one for each event loop
sse.py             bytes of a stream -> the texts of its events
replies.py         texts -> JSON objects, or the error that the answer is
redaction.py       what no message may show
"""

from langchain_gemini_tools.client.gemini_client import GeminiClient
from langchain_gemini_tools.client.sdk import SdkAsyncClient, SdkClient
from langchain_gemini_tools.client.settings import ClientSettings

__all__ = ["ClientSettings", "GeminiClient", "SdkAsyncClient", "SdkClient"]
