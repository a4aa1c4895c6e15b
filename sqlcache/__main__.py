"""`python -m sqlcache`: the command line."""

from sqlcache.cli import main

if __name__ == "__main__":
    main(prog_name="python -m sqlcache")
