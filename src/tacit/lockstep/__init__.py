"""What parties in lock step share, whatever they compute: `run` carries them out, `resumption` has them begin and end
together, `traffic` counts.
"""
