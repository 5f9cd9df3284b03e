"""The notebook extension, `%load_ext atops_widgets`.

magics        `%%timeline`, `%%kernel`, `%%schedules` and `%atops`
checking      the cell of `%%schedules`
failure_text  a failed launch as a notebook shows it
"""
