"""Tools of any dialect -> function declarations; tool_choice -> toolConfig.

- `tool`: `Tool`, `bind_tools` and `render_tools`. Start reading here
- `bind`: Python objects -> `Tool`; `dialects`: dicts of any vendor, and Gemini's built-in tools
- `choice`: `tool_choice` and `tool_config`
- `names`: names that the API accepts, and the way back to the user's
- `lint`: what the API would reject, and what costs or may not work as meant
"""
