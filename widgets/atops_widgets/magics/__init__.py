"""The notebook extension, `%load_ext atops_widgets`.

magics        `%%timeline`, `%%kernel` and `%atops`
failure_text  a failed launch as a notebook shows it
"""
