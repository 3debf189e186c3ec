"""`python -m hakmem`. `./hakmem` runs this file, whose first lines come before all imports of the package."""

import signal

if __name__ == "__main__":
    # Until hakmem.main handles the signal, Ctrl-C ends the process without a traceback from its imports.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hakmem.main import main

    main()
