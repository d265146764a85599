"""LangChain <-> Gemini, without network, files, clock or logging. Start reading at `request`."""
