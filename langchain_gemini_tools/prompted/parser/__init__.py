"""Parse tool calls out of text. Nothing here knows about Gemini.

- `scanner`: the rules, and the parser. Start reading here
- `calls`: reads one construct that contains tool calls; `values`: reads JSON-like values
- `output`: what was read -> text, tool calls and broken tool calls
- `words`: the text that has arrived, and the markers, tags and tokens that are searched for in it
"""
