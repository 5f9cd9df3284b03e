"""Drawing for all widgets.

base   the base class of widgets, their scripts, and one HTML file with several
scene  the picture as a header and columns, and both as bytes for the page
svg    pictures for where no script runs, with the selection in them
theme  colours, hatches, letters and style sheets
"""
