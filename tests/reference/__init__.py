"""Reference versions of the kernels: slow and obvious, with the same modules, names, arguments and random draws."""
