"""The project itself: its style, its README, its layers."""
