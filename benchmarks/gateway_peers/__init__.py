"""The gateways that are compared: how each is installed, configured for streams, and started."""
