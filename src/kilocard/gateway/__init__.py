"""The gateway: OpenAI's API in front of many engines, on one event loop a process."""
