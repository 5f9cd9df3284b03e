"""Figures, efforts, and reports of them."""
