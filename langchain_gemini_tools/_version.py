"""The version, read by hatchling and by the package."""

__version__ = "0.1.0"
