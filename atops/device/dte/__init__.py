"""The data transformation engine: what its operations do, and the contexts that transfer (TOPS C++, 8.7).

operations  the operations, a row each
stages      what rows are made of: take, turn, land
array_copy  moving the elements of one array into another
context     contexts, and starting an operation on one
transfer    what a transfer may move, and its event between issue and wait
duration    how long a transfer takes under a virtual clock
configured  contexts that are configured once, triggered often and connected
"""
