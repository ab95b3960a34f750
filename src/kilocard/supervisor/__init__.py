"""A cluster file, run on this box: engines and gateways started, watched, changed and ended."""
