"""`fsm demo`: two drivers, one of them killed in the middle of a task, and nothing runs twice by accident."""

from fsm.demo.command import demo

__all__ = ["demo"]
