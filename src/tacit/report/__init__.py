"""Pages and charts, for any kind: `page` and `sections` are the blocks, `chart` draws, `promises` says what an epsilon
means, `epochs` is the page of a training in epochs, `forecast` puts a plan into words.
"""
