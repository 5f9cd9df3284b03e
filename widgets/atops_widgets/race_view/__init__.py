"""Reports of the detectors as pictures.

sightings  races of a report or of a trace: sides, lines, bytes, and what would order them
drawing    the two sides on lines of their own: as it is, and with the order that is missing
race_view  all of a report as HTML and text
"""
