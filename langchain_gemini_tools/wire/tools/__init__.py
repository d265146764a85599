"""Tools of any dialect -> function declarations; tool_choice -> toolConfig.

- `tool`: `Tool`, its declaration and its names on the wire. Start reading here
- `bind`: whatever a user gives -> `Tool`; `dialects`: functions as dicts of any vendor
- `builtin`: Gemini's built-in tools, one row each
- `choice`: `tool_choice` and `tool_config`
- `lint`: what the API would reject, and what costs or may not work as meant
"""
