"""Other people's claims: an ε that code outside Tacit states, compared with its parameters and with samples.

    mechanism           any function that adds noise, with two neighbouring inputs (`tacit audit --mechanism`)
    flower_mods         the mods of a Flower ClientApp, such as `LocalDpMod` (`--flower`)
    opacus_training     model, optimizer and loader of Opacus (`--opacus`)
    batch_sampling      whether a loader draws Poisson samples; `shuffling`: ε at the least if it shuffles
    samples             lower bounds on ε from outputs on two neighbouring inputs
    verdict             claimed, recomputed and measured ε, and what follows; `claim_text`, `claim_page` show them

Each claim is audited in two independent ways.

*Recomputed*: from the parameters that the code itself uses (clipping norm, sensitivity, σ, sampling rate, steps), by
Tacit's accountant. For Gaussian noise on a Poisson sample this is the ε that holds and no smaller one does. If the
sampler is not Poisson, the proof that the claim relies on does not apply: then the ε without amplification is given,
which always holds, and one below which no ε holds.

*Measured*: the code is run as it is, on the two neighbouring inputs that tell the most. Updates and gradients lie
beyond the clipping norm, so that they end at it, in opposite directions or present and absent. Scores are learned from
a first part of the outputs, column and threshold are chosen on a second, and errors are counted on a third that was
never looked at, by Clopper and Pearson. There are two bounds, at a confidence that is corrected for both: one that
holds whatever the mechanism is, which needs several times e^ε outputs, and one that relies on the noise being Gaussian,
as the code says, which needs some thousands. A training of many steps is measured step by step, and composed.

*Verdict*: `refuted` if a measured bound, or an ε that is exact for the parameters, is above the claim; `not proved` if
the parameters do not support it; `holds` if they do and no sample contradicts; `not refuted` if nothing is known of the
parameters. None of this proves that the code has no other fault.

Tacit imports neither Opacus nor Flower here until a claim of theirs is audited, and Opacus not at all: what its objects
are is read from their attributes.
"""
