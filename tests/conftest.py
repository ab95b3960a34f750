"""Settings of all tests: laws are tried without a deadline, for a busy machine is no failure."""

from hypothesis import settings

settings.register_profile("kilocard", deadline=None)
settings.load_profile("kilocard")
