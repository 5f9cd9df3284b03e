"""What the C-style functions of every API stand on: an API is its declarations and codes, and what is special in it.

declarations  a function's name, parameters, documented codes, and whether it can wait; read from rows of text
call          makes a function and its awaitable twin of an implementation, whose waits are written once for both
codes         errors as codes, and back
last_error    the last error of a task or thread
arguments     numbers, words, texts and lists, read and checked
handles       the current device, and ints that stand for objects
pointers      ints that name bytes
structs       structs of a header, with their layout in C
"""
