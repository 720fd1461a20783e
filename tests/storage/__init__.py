"""The storage layer by itself: no lifecycle and no table of the gateway."""
