"""`make demo`: an agent end to end, with parallel calls, a second turn and a stream.

With `GOOGLE_API_KEY` in the environment it talks to Gemini; without one to the local emulator, and
it says which.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_gemini_tools import ChatGemini
from tests.emulator.server import API_KEY, Emulator

MODEL = "gemini-3-flash-preview"


def get_weather(city: str) -> str:
    """Current weather in a city."""
    return {"Oslo": "-3 °C, snow", "Rome": "17 °C, sun"}.get(city, "12 °C, clouds")


def convert_currency(amount: float, currency: str) -> str:
    """Convert an amount of euros to another currency."""
    rates = {"NOK": 11.6, "USD": 1.08}
    return f"{amount * rates.get(currency, 1.0):.2f} {currency}"


def main() -> None:
    """Run the agent and print what happened."""
    with ExitStack() as stack:
        if os.environ.get("GOOGLE_API_KEY"):
            model = stack.enter_context(ChatGemini(model=MODEL))
            print(f"Talking to {MODEL} with your key.\n")
        else:
            emulator = stack.enter_context(Emulator())
            model = stack.enter_context(
                ChatGemini(model=MODEL, api_key=API_KEY, base_url=emulator.url)
            )
            print("No GOOGLE_API_KEY: talking to the local emulator, which is no real model.\n")
        agent = create_agent(model, tools=[get_weather, convert_currency])
        messages: list[Any] = []
        for question in (
            "What is the weather in Oslo and Rome?",
            "Please use convert_currency: 25 euros in the currency 'NOK'?",
        ):
            messages.append(HumanMessage(question))
            seen = len(messages)
            messages = agent.invoke({"messages": messages})["messages"]
            _show(messages[seen - 1 :])
        print("streamed: ", end="")
        for chunk in model.stream("Say goodbye"):
            print(chunk.text, end="", flush=True)
        print()


def _show(messages: list[BaseMessage]) -> None:
    for message in messages:
        match message:
            case HumanMessage():
                print(f"you    {message.text}")
            case AIMessage() if message.tool_calls:
                for call in message.tool_calls:
                    print(f"model  calls {call['name']}({call['args']})")
            case ToolMessage():
                print(f"tool   {message.name} answers {message.text!r}")
            case _:
                print(f"model  {message.text}\n")


if __name__ == "__main__":
    main()
