"""From a source text to kernels: reading it, checking it, and reporting its faults with their places.

front_end         a text in, a unit out
python_unit       Python's parser and compiler, and the unit
function_checks   the rules for functions, and names that the target lacks
names             names without a definition
constant_folding  values known beforehand
options           the options of a compilation
diagnostics       errors, warnings and notes
files             which files are C++, by their names
"""
