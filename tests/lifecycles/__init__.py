"""The gateway's declarations."""
