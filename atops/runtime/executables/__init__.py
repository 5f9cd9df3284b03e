"""Executables: ONNX graphs with their constants, as files that streams launch (TOPS Runtime API, 2.11).

executable  one that is open, and its launches
build       making one of an ONNX model
graph       the graph, checked and evaluated
file        its sections, and the inputs, outputs, constants and functions in them
constants   constants on the host and on devices, and changing them
"""
