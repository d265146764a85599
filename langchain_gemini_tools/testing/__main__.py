"""`python -m langchain_gemini_tools.testing audit PATH...` exits with 1 if there is a problem."""

import sys

from langchain_gemini_tools.testing.audit import main

if __name__ == "__main__":
    sys.exit(main())
