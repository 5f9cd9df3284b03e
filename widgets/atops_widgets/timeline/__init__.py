"""The timeline: a row a stream, engines and clusters below, arrows of waits.

timeline  the widget, and the same without a script
scene     what it shows
shapes    its rows, and records as shapes on them: a million at coarser resolutions
"""
