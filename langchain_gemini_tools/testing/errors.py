"""Errors of cassettes and of `FakeGemini`. They are not failures of the API: nothing is retried.

* CassetteError
  * StaleCassetteError    a request is not in the cassette
  * CassetteInUseError    another cassette is open
  * CassetteFileError     the file is not a cassette, or is not safe to load
  * SecretFoundError      the recording contains a credential and was not saved
* FakeGeminiError         the script and the requests do not agree
"""

__all__ = [
    "CassetteError",
    "CassetteFileError",
    "CassetteInUseError",
    "FakeGeminiError",
    "SecretFoundError",
    "StaleCassetteError",
]


class CassetteError(Exception):
    """Base class of all errors that cassettes raise."""

    explains_itself = True
    """The client adds no note about where the error was raised."""


class StaleCassetteError(CassetteError):
    """A request is not in the cassette, or was recorded fewer times than it is made."""


class CassetteInUseError(CassetteError):
    """A cassette is opened while another one is open."""


class CassetteFileError(CassetteError):
    """A file is not a cassette, or is not safe to load."""


class SecretFoundError(CassetteError):
    """A recording still contains something that looks like a credential; it was not saved."""


class FakeGeminiError(AssertionError):
    """The script of `FakeGemini` and the requests do not agree."""
