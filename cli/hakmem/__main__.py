"""`python -m hakmem`."""

from hakmem.main import main

if __name__ == "__main__":
    main()
