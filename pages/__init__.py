"""The pages of the site that are generated: `python -m pages` writes them, `make docs` builds the site."""
