"""Contrast of colours, as the Web Content Accessibility Guidelines (WCAG) 2.2 define it."""

import numpy as np


def contrast(one, other):
    """Return the contrast ratio, 1 to 21, of two colours given as red, green and blue from 0 to 255."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour):
    """Return the relative luminance of a colour."""
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))
