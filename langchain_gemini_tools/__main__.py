"""`python -m langchain_gemini_tools "What should I pack for Oslo and Rome?"`, or `check`."""

import sys

if sys.argv[1:2] == ["check"]:
    from langchain_gemini_tools.self_check import main

    sys.exit(main(sys.argv[2:]))

from langchain_gemini_tools.demo.command import main

sys.exit(main())
