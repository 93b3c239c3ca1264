"""The audit: what an attacker recovers from the messages that the protocols send, beside what is proved.

    finding       the shape of every result: who attacks and sees what, the claim, the audited bound, scores off and on
    bounds        lower bounds on epsilon from samples, each with its confidence
    tradeoff      the trade-off curve of a claim, and the test of scores against all of it; `separation` learns scores
    one_run       the same from one run, out of many guesses about who took part
    mechanisms    auditors of single mechanisms: Laplace, Gaussian, randomized response, labels, Skellam, clipped sums
    masks         whether a masked upload depends on what it hides
    view          what the coordinator of a horizontal federation sees: its messages, recorded
    inversion     gradient inversion: closed form, DLG, and a DLG that does not depend on the gradient's length
    gradients     these attacks against each protection of a horizontal federation
    differences   sums over nearly the same clients, subtracted by a coordinator that drives real clients
    membership    who was in the training set: by loss, and by reference models
    cut           what the parties of a split training see at the cut: their messages, recorded
    decoders      inverting activations: trained decoders, search with the network known, UnSplit
    embeddings    these attacks against EmbeddingDP, by the leader (topology V)
    tokens        which tokens the follower recovers (topology U)
    labels        which labels a follower recovers from gradients, against LabelDP and noise
    intervals     scores with the interval of a bootstrap over records
    similarity    how alike two images are: PSNR, SSIM
    training      what membership inference attacks: digits, trained plainly or by private SGD
    utility       what a protection costs in accuracy
    canaries      gradients of an attacker's making, in place of what chosen records leave in the engine
    observer      everything that leaves a file's own private training, step by step
    single_steps  canaries in each tensor, in single steps; `few_records` alone or opposed, `whole_training` end to end
    likelihood    what one noisy number says for a canary in it
    client_canaries   the same in a client's uploads; `cut_canaries` at the cut of a split training
    protocol_rules    rules of a federation that its own clients must keep: one answer a round, masks used once
    residues      attacks on vertical regression; `deals` makes them on a file's own tables
    network       what whoever taps the wire sees, with TLS and without; `wiretap` is the proxy
    own_round     a round of a file's own federation, recorded and attacked
    own_training  a file's own private training as a subject
    steps         what an audit is made of; `kinds` says which attacks fit a file, `carry_out` makes them
    words, page   what came out, for a terminal and as `audit.html`; `summary` is its first sentence, `drawings` the
                  pictures

An attack takes only what its adversary sees, and returns `Finding`s. A `Finding` states the adversary, the unit and
the neighbouring relation, the proved (epsilon, delta) or None, the audited lower bound, the attack's score without and
with the protection, each with an interval and beside what somebody scores who sees nothing, reconstructions beside
originals, what the protection costs, and what was not tested. An audited bound above the proof refutes the claim
(`Finding.refuted`); an audited bound below it proves nothing.
"""
