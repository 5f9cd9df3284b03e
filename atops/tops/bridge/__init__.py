"""What all C-style functions share.

call       makes a function and its awaitable twin of an implementation, whose waits are written once for both
codes      errors as codes, and back; the last error of a task or thread
arguments  numbers, words, texts and lists, read and checked
handles    the current device, and ints that stand for objects
pointers   ints that name bytes
"""
