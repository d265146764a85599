"""The seam to google-genai: a finished body goes in, the server's JSON comes out uninterpreted.

client.py      GeminiClient: send, stream and their async counterparts. Start reading here
sdk.py         the settings, and the SDK's client, built from them at the first request
sharing.py     one SDK client and one pool for all equal settings of a process
transport.py   the HTTP clients that the SDK sends through, which replace its bodies by ours
pool.py        the HTTP clients that do the sending: one for all threads, one per event loop
network.py     the sockets under them: time limits, and no reuse after unread bytes
responses.py   HTTP responses and server-sent events -> JSON objects or errors, within limits of
               time and size
sdk_types.py   the SDK's types that are also names of this package
"""

from langchain_gemini_tools.client.client import GeminiClient
from langchain_gemini_tools.client.sdk import ClientSettings, SdkAsyncClient, SdkClient

__all__ = ["ClientSettings", "GeminiClient", "SdkAsyncClient", "SdkClient"]
