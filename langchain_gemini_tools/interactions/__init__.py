"""LangChain <-> the Interactions API, `POST /v1beta/interactions`.

The rules for histories, names, schemas, tools, options and parsing are those of `wire`. This
package translates at the two ends: contents into steps, and steps into parts.

- `request`: the body, from the fields of generateContent; the request parses its response
- `response`: interactions, whole or as the events of a stream -> responses that `wire` parses
- `steps`: contents -> steps, as far as the API has not kept them, and steps -> parts

Facts about the API are marked with their evidence: recorded, documented, by the SDK, or inferred.
"""
