"""LangChain <-> Gemini, without network, files, clock or logging.

- From messages to a request: `request` (start reading here), `history`, `contents`, `blocks`,
  `media`, `generation`, `body`, `rejections`
- From a response to messages: `response` (start reading here), `parts`, `function_calls`, `pieces`,
  `metadata`, `hops`
- For both: `invocation` (the resolved options), `replay` (what a message keeps for the next
  request), `shapes` (the API's types), `schema`, `tools`
"""
