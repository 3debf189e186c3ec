"""`python -m hakmem`. `./hakmem` runs this file, whose first lines come before all imports of the package."""

# Built in: the module `signal` imports others, which takes milliseconds.
import _signal  # type: ignore[import-not-found,unused-ignore]
import sys

if __name__ == "__main__":
    # Until hakmem.main handles the signal, Ctrl-C ends the process without a traceback from its imports.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    # ./hakmem starts Python by -S, which leaves to this file what Python imports at its start.
    if sys.flags.no_site:
        import site

        site.main()
    from hakmem.main import main

    main()
