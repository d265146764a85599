"""Facts that every module may import: models, finish reasons, credentials, blocks, JSON, spelling.

The modules here and `errors` form the bottom layer. They import nothing else of this package.
"""
