"""Tools of any dialect -> function declarations; tool_choice -> toolConfig."""
