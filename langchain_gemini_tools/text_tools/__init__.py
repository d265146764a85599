"""Tool calls as text, for models without function calling."""
