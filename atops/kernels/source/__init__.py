"""From a source text to kernels: reading it, checking it, and reporting its faults with their places.

front_end            a text in, a unit out
python_unit          the unit
syntax               Python's parser and compiler
function_checks      the rules for functions
architecture_checks  names that the target lacks
names                names without a definition
constant_folding     values known beforehand
function_source      the syntax tree of a function
options              the options of a compilation
diagnostics          errors, warnings and notes
"""
