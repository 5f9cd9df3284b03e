"""Executables: ONNX graphs with their constants, as files that streams launch (TOPS Runtime API, 2.11).

executable  one that is open
launch      running it in stream order
build       making one of an ONNX model
graph       the graph, checked and evaluated
file        the container of sections
tables      inputs, outputs, constants and functions in it
constants   constants on the host and on devices
refit       changing them
"""
