"""A strict local Gemini. `server` is the way in; see there."""

from tests.emulator.server import ACCESS_TOKEN, API_KEY, Emulator, Request

__all__ = ["ACCESS_TOKEN", "API_KEY", "Emulator", "Request"]
