"""The C-style functions as declarations: name, parameters, documented codes. A file a group of sections.

function       one declaration, read from its row
all_functions  all of them by name
device         2.1 to 2.3
stream         2.4 and 2.5
memory         2.6 and 2.7
module         2.8 to 2.10
extension      2.11
"""
