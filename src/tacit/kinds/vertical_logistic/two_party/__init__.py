"""Regression on secret shares between two parties without a dealer, from oblivious transfer.

scales                 fixed-point scales
meeting, messages      how the parties meet; both ends of transfers, which live as long as the meeting
products, cell_trees   one party's features times the other's words, from punctured trees made once in a meeting
lookup                 a function of a shared score, by a lookup of one of many
lift                   low bits of a shared number are dropped
training               the steps
unit_vectors, held_out_counts    figures of the rows held out
prediction             releases for new rows
costs                  bytes, exchanges and transfers of a training, and distances from uniform

    train(channels, given, terms, me, context)      each of the two parties

What the parties agree on, what they keep and what they are given are those of `shared`, the protocol with a dealer.

**Messages.** Greetings; base transfers in both directions; trees of both tables, 800 bytes a cell.
Then in each step: words for the digits of the batch, both ways; lookups of the scores, by the passive; words for the
digits again; transfers for the weights. Three round trips a step.

**Who opens what.** As with a dealer: to the active figures of the rows held out, if the terms ask for them; to the
passive which buckets make up a group, whether an epoch was the best, and whether the training ends. At the end, to each
party its own weights, to the active the intercept. A prediction opens to the active what its terms release.

**Nothing is used twice.** Transfers, trees and tweaks live in memory and in one meeting. A party stores its shares of
the weights and a mark of the meeting that made them (`shared.progress`), and no key, tree or tweak.
"""
