"""JSON Schema in any spelling -> the schema that is sent to Gemini.

- `keywords`: one row per keyword; `walk`: the only walkers over schemas, and their references
- `python_types`: classes, typed dicts and functions -> JSON Schema
- `read`: any spelling -> the keywords of JSON Schema 2020-12
- `clean`: the keywords that Gemini follows, with the same meaning (start reading here); `rules`
- `render`: the JSON Schema that is sent; `openapi`: the API's older Schema message
"""
