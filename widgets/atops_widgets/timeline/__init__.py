"""The timeline: a row a stream, engines and clusters below, arrows of waits.

timeline  the widget
scene     what it shows
svg       the same without a script
rows      its rows
shapes    records as shapes on them
pyramid   a million records at coarser resolutions
"""
