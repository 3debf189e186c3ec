"""`hakmem doctor`: checks of the machine, the library and a program."""
