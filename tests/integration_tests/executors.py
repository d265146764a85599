"""Other agent loops than `create_agent`, made from a model and tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from langchain_gemini_tools import ChatGemini

PROMPT = ChatPromptTemplate([("human", "{input}"), ("placeholder", "{agent_scratchpad}")])


def classic_executor(chat: ChatGemini, tools: list[BaseTool]) -> AgentExecutor:
    """Return an executor; it accepts `{"input": text}` and does not mark failed results."""
    return AgentExecutor(agent=create_tool_calling_agent(chat, tools, PROMPT), tools=tools)


def tool_node_graph(chat: ChatGemini, tools: list[BaseTool]) -> Any:
    """Return the smallest graph with a `ToolNode`."""
    read: Any = RunnableLambda(lambda state: state["messages"])
    write: Any = RunnableLambda(lambda message: {"messages": [message]})
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", read | chat.bind_tools(tools) | write)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()
