"""An agent that packs suitcases: two tools, parallel calls, a second turn of calls, an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.tool_loop import ToolLoop

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

MODEL = "gemini-3-flash-preview"
QUESTION = "What should I pack for Oslo and Rome?"
_INSTRUCTIONS = (
    "You help people pack. Look up the weather of every city first, all at once. Then check once "
    "which of the things you would recommend are in the wardrobe. Answer in three sentences."
)
_WEATHER = {"oslo": "-3 °C, snow", "rome": "17 °C, sun"}
_WARDROBE = {"down jacket", "wool hat", "sunglasses", "umbrella", "rain coat", "light shirt"}


def get_weather(city: str) -> str:
    """Weather of the coming days in a city."""
    return _WEATHER.get(city.lower(), "12 °C, clouds")


def check_wardrobe(items: list[str]) -> dict[str, list[str]]:
    """Which of these pieces of clothing are in the wardrobe, and which are missing."""
    return {
        "there": [item for item in items if item.lower() in _WARDROBE],
        "missing": [item for item in items if item.lower() not in _WARDROBE],
    }


def make_agent(model: BaseChatModel) -> ToolLoop:
    """The agent, over any chat model that calls tools."""
    return ToolLoop(model, [get_weather, check_wardrobe], max_turns=6)


def render_input(question: str) -> dict[str, Any]:
    """What the agent is asked."""
    return {"messages": [("system", _INSTRUCTIONS), ("user", question)]}
