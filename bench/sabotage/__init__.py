"""Planted faults: each is put into a copy of the package, and tests and audits must notice it.

faults.py       what is planted, and who must notice it
patches.py      patches by name, which survive the move of files
noticed.py      runs the tests and the audits; outcomes.py is their pytest plugin
command.py      python -m bench sabotage
files/          files to audit, and the small task that they train
"""
