"""A file becomes settings: `load` reads it, `source` keeps where each key was written, `spelling` brings its keys under
the settings' names, `explain` says what is wrong, `task` finds the task that it names.
"""
