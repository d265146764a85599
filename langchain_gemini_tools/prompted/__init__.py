"""Calls to models without function calling: `text_tools` between LangChain and the wire."""
