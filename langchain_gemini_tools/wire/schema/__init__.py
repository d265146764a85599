"""JSON Schema, from wherever it comes -> what Gemini takes of it. Start reading at `cleaning`."""
