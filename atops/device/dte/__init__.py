"""The data transformation engine: what its operations do, and the contexts that transfer (TOPS C++, 8.7).

operations  the operations, a row each
stages      what rows are made of: take, turn, land
array_copy  moving the elements of one array into another
context     contexts, and starting an operation on one
operands    what a transfer may move
transfer    a transfer between its issue and its wait
memcpy      the short way of the commonest one
configured  contexts that are configured once and triggered often
chain       the order of connected ones
"""
