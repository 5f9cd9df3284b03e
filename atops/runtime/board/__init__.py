"""What one device has in one driver.

context         the device's chip, memory and engines, and its streams that have work
current_device  the device and the stream that are meant when none is named
deferred_free   memory that is given back when earlier work is over
handles         integers that stand for objects
signals         kernel signals, handed out
symbols         its instances of declared variables, as arrays that streams copy
printing        what kernels print, shown before their launch is over
"""
