"""Tests of the package that shows lifecycles."""
