"""Regression on secret shares with a dealer: nobody sees a score, a residue, a gradient or a weight of another party.

terms, scales         what the parties agree on; fixed-point scales, and distances from uniform
meeting, messages     how they meet, and open what is masked
streams, deals        correlated words from seeds, and what each deal holds
dealer                the party without data
masked_table, training    a data party: its table under masks, and the steps
fourier, low_bits     functions of a masked score; dropping low bits of a shared number
held_out_figures, histogram    figures of the rows held out
digit_comparison, prediction   releases for new rows
progress, costs       what a party keeps to resume; bytes and exchanges of a training, before it begins

    train(channels, given, terms, me, context)      each data party
    deal(channels, terms)                           the dealer

**Messages.** Greetings among all; a seed from the dealer to each party, new in each meeting; each table once, minus a
mask that its owner and the dealer know. Then for each step one deal and four openings (five with class weights): each
data party sends its share of a masked value to all others, w - b, z + rho (32-bit words), r - u and g + mask. Only the
last party is sent words by the dealer (512 rows, 30 columns, 60 harmonics: 0.5 MB a step); a data party sends 6.6 kB to
each other. The dealer is at most two deals ahead, and a deal has about 64 MB at most: larger batches are cut.

**Who opens what.** To all: only what is masked. To the active: figures of the rows held out, if the terms ask for them
(sum of losses; ranks of scores to within four rows, and exactly where no row scores near; counts by class of groups of
more than ten rows). To the other
parties: which buckets make a group, whether an epoch was the best, and whether the training ends. At the end, to each
party its own weights, to the active the intercept. A prediction opens to the active what its terms release.

**Guarantee.** Given uniform masks, all that a set of data parties receives is uniform and independent of the others'
tables, as long as one data party and the dealer are not in the set. There is no statistical masking: z is cut to 32
bits before rho is added, and rho is uniform over 32-bit words. What is left is the distance of AES-128 in counter mode
from uniform, which `scales.distances` adds up. The dealer with any data party opens everything. All are semi-honest.

**Errors.** Features are rounded to 2^-16 (2^-12 for the largest batches), weights to 2^-24. Truncation is off by less
than one unit and right in expectation. The sigmoid is within 6e-5 (60 harmonics) or 6e-3 (30) for scores up to 118.

**No mask is used twice.** Seeds are new in each meeting, deals are numbered, and a number that is not the next is
refused at both ends. So a party stores its shares of the weights and no mask (`progress`), and the dealer stores
nothing. A step that is repeated after an interruption is opened under new masks, which tells nothing new. Figures that
are made again give ranks another rounding.
"""
