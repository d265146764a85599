"""The agent behind `python -m langchain_gemini_tools`, and a recording of it."""
