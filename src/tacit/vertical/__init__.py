"""The same rows, other columns: parties that hold different features of the same people.

    align    which rows the parties have in common, by private set intersection, and one order for all of them

Each protocol is one function a role over `Channel`s, read from top to bottom beside its paper.
"""
