"""Parse tool calls out of text. Start reading in `scanner.py`; nothing here knows about Gemini."""
