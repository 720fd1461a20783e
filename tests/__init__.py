"""The tests, arranged like the packages."""
