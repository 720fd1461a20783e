"""How a lifecycle is shown: a declaration becomes a plain model, which renderers turn into text."""

from diagrams.describe import describe
from diagrams.gallery_pictures import check_pictures, write_pictures
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
from diagrams.render.dot import dot
from diagrams.render.mermaid import mermaid
from diagrams.render.overlay import Step
from diagrams.render.picture import PictureUnavailableError, picture
from diagrams.render.plantuml import plantuml
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
    "PictureUnavailableError",
    "Step",
    "check_gallery",
    "check_pictures",
    "describe",
    "dot",
    "mermaid",
    "picture",
    "plantuml",
    "reference",
    "render_gallery",
    "write_gallery",
    "write_pictures",
]
