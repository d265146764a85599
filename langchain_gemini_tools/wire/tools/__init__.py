"""Tools of any dialect -> function declarations; tool_choice -> toolConfig.

- `tool`: `Tool`, its declaration, and its names and parameters on the wire. Start reading here
- `bind`: anything that can be bound -> `Tool`; a row for each vendor's dialect of functions
- `builtin`: Gemini's built-in tools, one row each
- `choice`: `tool_choice` and `tool_config`
- `lint`: what the API would reject, what costs tokens, and what may not work
"""
