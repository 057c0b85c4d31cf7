"""The text of a PMML file: XML that is read without entities, as elements whose names have no namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.parsers import expat

from debias.errors import UnsupportedModelError
from debias_adapters.pmml.parsing import parsed

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

SOURCE = "PMML model"
VERSIONS = ("4.2", "4.3", "4.4")


def root_of(content: bytes) -> Element:
    """Return the element ``PMML`` of a file.

    Parameters
    ----------
    content : bytes

    Raises
    ------
    UnsupportedModelError
        It is no XML, has a document type (with which entities could be declared), or is no PMML of a version that is
        read.
    """
    try:
        root = parsed(content)
    except (expat.ExpatError, LookupError, ValueError) as error:  # the last two: of an encoding Python does not have
        raise damaged(f"it is no whole XML ({error})") from error
    if root.tag != "PMML":
        raise UnsupportedModelError(f"this XML file has the element {root.tag!r} outside, and PMML files have PMML")
    version = root.get("version", "unknown")
    if not version.startswith(VERSIONS):
        raise UnsupportedModelError(
            f"this file is PMML of the version {version}, and debias reads {VERSIONS[0]} to {VERSIONS[-1]}: write it "
            "again with a newer converter"
        )
    return root


def damaged(what: str) -> UnsupportedModelError:
    """Return the error for a file that contradicts itself or the standard."""
    return UnsupportedModelError(f"this {SOURCE} is damaged: {what}")


def unsupported(what: str) -> UnsupportedModelError:
    """Return the error for a file that has something which debias does not read."""
    return UnsupportedModelError(f"this {SOURCE} has {what}, which debias does not read")


def number(element: Element, name: str, default: float | None = None) -> float:
    """Return an attribute of an element as a finite number."""
    text = element.get(name)
    if text is None and default is not None:
        return default
    return to_number(text, f"{name} of {element.tag}")


def to_number(text: str | None, what: str) -> float:
    """Return a text as a finite number; `what` says what it is, for messages."""
    try:
        value = float(text or "")
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise damaged(f"{what} is {text!r}, and must be a finite number")
    return value
