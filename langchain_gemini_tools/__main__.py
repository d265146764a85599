"""`python -m langchain_gemini_tools "What should I pack for Oslo and Rome?"`, or `check`."""

import os
import sys


def _main() -> int:
    if sys.argv[1:2] == ["check"]:
        from langchain_gemini_tools.self_check import main as check

        return check(sys.argv[2:])
    from langchain_gemini_tools.demo import main

    return main()


try:
    code = _main()
    if sys.stdout is not None:
        sys.stdout.flush()
except KeyboardInterrupt:
    code = 130  # as shells report it
except BrokenPipeError:  # as of `| head`: Python would write to it again at its end
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    code = 1
sys.exit(code)
