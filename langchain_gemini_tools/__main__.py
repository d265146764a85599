"""`python -m langchain_gemini_tools "What should I pack for Oslo and Rome?"`."""

import sys

from langchain_gemini_tools.demo.command import main

sys.exit(main())
