"""What every widget draws with.

base   the base class of widgets
scene  the picture as a header and columns, and both as bytes for the page
svg    pictures for where no script runs, with the selection in them
page   the scripts, and one HTML file with widgets
theme  colours, hatches, letters and style sheets
"""
