"""Attacks on boosted trees: what the active learns of columns, and a passive of labels (docs/trees-leaks.md).

record              what each party sees of a training; training, one in one place that is recorded
bin_rows            rows of a bin from the sums of one node; small columns by lattices
whole_columns       the bin of every cell, from the sums of all nodes and the partitions
labels_from_nodes   labels, from the rows of nodes
split_bits          the order of a column, from the answers to splits
audit_steps         all of them, as the steps of an audit
"""
