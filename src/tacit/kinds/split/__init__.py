"""Split learning: one network cut between parties, who send each other activations and gradients across the cut.

`EmbeddingDP` turns activations into randomized bits, `LabelDP` randomizes labels; `leader` and `follower` are the two
parties of a training, functions over channels. `boundary` lists what leaves each of them, `forecast` what it will cost.
"""
