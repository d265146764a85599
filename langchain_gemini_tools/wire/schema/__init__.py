"""JSON Schema in any spelling -> the schema that is sent to Gemini.

- `keywords`: one row per keyword
- `walk`: the only walkers over schemas, their references, and loops of references
- `python_types`: classes, typed dicts and functions -> JSON Schema
- `read`: any spelling -> the keywords of JSON Schema 2020-12
- `clean`: the keywords that Gemini follows, with the same meaning. Start reading here
- `render`: the schema that is sent, as JSON Schema or as the API's older Schema message
"""
