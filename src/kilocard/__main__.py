"""`python -m kilocard`: the command line, where its script is not on the path."""

from kilocard.cli import main

if __name__ == "__main__":
    main()
