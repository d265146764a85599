"""What can go wrong with a cassette. None of it is a failure of the API, so nothing is retried."""


class CassetteError(Exception):
    """Base of everything that cassettes raise."""

    explains_itself = True
    """What it comes through need not add where it came from."""


class StaleCassetteError(CassetteError):
    """A request that is not in the cassette, or is there less often than it was made."""


class CassetteInUseError(CassetteError):
    """A second cassette while one is open."""


class CassetteFileError(CassetteError):
    """A file that is no cassette, or one that nobody should load."""


class SecretFoundError(CassetteError):
    """What was recorded still holds something shaped like a credential; it was not saved."""
