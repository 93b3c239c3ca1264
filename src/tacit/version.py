"""The version of the package, for those below the public door."""

__version__ = "0.3.0.dev0"
