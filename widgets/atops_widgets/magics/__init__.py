"""IPython magics, and failures as a notebook shows them.

magics         `%load_ext atops_widgets`, and `%%kernel`
cell_timeline  `%%timeline`
status_text    `%atops`
failure_text   a failed launch with the kernel's own lines
"""
