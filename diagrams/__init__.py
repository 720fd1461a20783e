"""How a lifecycle is shown: a declaration becomes a plain model, which renderers turn into text."""

from diagrams.describe import describe
from diagrams.gallery_writer import GALLERY, check_gallery, render_gallery, write_gallery
from diagrams.model import (
    BEGINNING,
    END,
    Diagram,
    DiagramEdge,
    DiagramKind,
    DiagramOutcome,
    DiagramState,
    DiagramStep,
    DiagramTrigger,
)
from diagrams.render.mermaid import mermaid
from diagrams.render.table import reference

__all__ = [
    "BEGINNING",
    "END",
    "GALLERY",
    "Diagram",
    "DiagramEdge",
    "DiagramKind",
    "DiagramOutcome",
    "DiagramState",
    "DiagramStep",
    "DiagramTrigger",
    "check_gallery",
    "describe",
    "mermaid",
    "reference",
    "render_gallery",
    "write_gallery",
]
