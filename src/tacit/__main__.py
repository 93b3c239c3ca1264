"""`python -m tacit`, the same as `tacit`."""

from tacit.cli import main

if __name__ == "__main__":
    main(prog_name="tacit")
