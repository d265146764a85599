"""What the text so far says about the calls that come next."""

from __future__ import annotations

from langchain_gemini_tools.text_tools import spellings

_MAX_TAIL = 200


class LineMemory:
    """The end of the current line, and whether the line before it announces an example.

    Only a bounded end of a line is kept, so that long lines cost no more than short ones.
    """

    def __init__(self) -> None:
        self.tail = ""
        self.introduces_example = False
        self.is_inside_json = False
        """A larger JSON value is under way: its lines are no calls."""
        self._has_call = False
        self._has_shown_call = False

    def see_text(self, text: str) -> None:
        """Text that the user will see."""
        *lines, last = text.split("\n")
        for line in lines:
            self._keep(line)
            self._end_line()
        self._keep(last)

    def see_call(self) -> None:
        """A call that was made."""
        self._has_call = True
        self.introduces_example = False
        self.is_inside_json = False

    def see_shown_call(self) -> None:
        """A call that was shown as an example."""
        self._has_call = True
        self._has_shown_call = True

    @property
    def has_ended_sentence(self) -> bool:
        """Whether the line so far ends with a whole sentence and a blank."""
        sentence = self.tail.rstrip(" \t")
        return sentence != self.tail and sentence[-1:] in (".", "!", "?", "\u2026")

    @property
    def speaks_of_examples(self) -> bool:
        """Whether a call in the current line would be shown rather than made."""
        return self.introduces_example or spellings.speaks_of_examples(self.tail)

    def _keep(self, text: str) -> None:
        self.tail = (self.tail + text[-_MAX_TAIL:])[-_MAX_TAIL:]

    def _end_line(self) -> None:
        if self.tail.strip():
            self.introduces_example = spellings.introduces_example(self.tail)
            self._has_shown_call = False
        elif not self._has_call:
            self.is_inside_json = False
            if self._has_shown_call:
                self.introduces_example = False
        self.tail = ""
        self._has_call = False
