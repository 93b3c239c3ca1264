"""The faults that are put into a copy of the package, one at a time, and who must notice each.

To add one: a name, where it goes (see `patches`), the tests that must fail by an assertion, each of them, and a file
of `files/` for which `tacit audit --full` must say that a claim is false, or None if nothing that is released changes.
`tests/bench/test_sabotage.py` holds that every patch has its place and every named test exists.
"""

from dataclasses import dataclass
from pathlib import Path

from bench.sabotage.patches import Patch

FILES = Path(__file__).parent / "files"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `file` is None where only the accounting is wrong: what is released stays the same."""

    name: str
    patches: tuple[Patch, ...]
    tests: tuple[str, ...]
    file: str | None


# 32 bytes that a client of secure aggregation drew before, in any round of this process.
_KEPT = "globals().setdefault('_kept', {}).setdefault(identity, random_bytes(rng, 32))"

FAULTS = (
    # --- the noise of private training
    Fault(
        "noise halved",
        (Patch("Fast.begin", "multiplier * clip / self._divisor", "multiplier * clip / self._divisor / 2"),),
        ("test_the_default_noise_has_the_deviation_that_is_paid_for",),
        "training.yaml",
    ),
    Fault(
        "noise on half of the coordinates",
        (
            Patch(
                "Fast._draw",
                "self._source.normal(self._engine.sum, self._deviation)",
                "self._source.normal(self._engine.sum, self._deviation)\nself._engine.sum[1::2].zero_()",
            ),
        ),
        (
            "test_the_default_noise_has_the_deviation_that_is_paid_for",
            "test_every_coordinate_gets_fresh_noise_at_every_step",
        ),
        "training.yaml",
    ),
    Fault(
        "last layer bare",  # a model of one layer keeps its noise
        (
            Patch(
                "Fast._draw",
                "self._source.normal(self._engine.sum, self._deviation)",
                "self._source.normal(self._engine.sum, self._deviation)\n"
                "for view in self._engine.views[2:][-2:]:\n    view.zero_()",
            ),
        ),
        ("test_every_coordinate_gets_fresh_noise_at_every_step",),
        "training.yaml",
    ),
    Fault(
        "noise off after step 50",
        (
            Patch(
                "PrivateOptimizer._pay",
                "self.plan.noise_of(self.steps)",
                "self.plan.noise_of(self.steps) * (1.0 if self.steps < 50 else 1e-6)",
            ),
        ),
        ("test_every_coordinate_gets_fresh_noise_at_every_step",),
        "training.yaml",
    ),
    Fault(
        "same noise every step",
        (Patch("Gaussian.normal", "with torch.no_grad():", "self._page = 0\nwith torch.no_grad():"),),
        (
            "test_numbers_are_independent_of_each_other_and_between_calls",
            "test_every_coordinate_gets_fresh_noise_at_every_step",
        ),
        "training.yaml",
    ),
    Fault(
        "fixed key",
        (
            Patch(
                "Gaussian.__init__",
                "os.urandom(KEY_BYTES) if key is None else key",
                "bytes(KEY_BYTES) if key is None else key",
            ),
        ),
        (
            "test_a_key_repeats_and_the_system_does_not",
            "test_every_coordinate_gets_fresh_noise_at_every_step",
        ),
        "training.yaml",
    ),
    Fault(
        "noise pairs equal",
        (
            Patch("_Stretch.by_torch", "torch.sin(angles", "torch.cos(angles"),
            Patch("transform", "(sine, cosine) if quarter", "(cosine, cosine) if quarter"),
            Patch("transform", "else (cosine, sine)", "else (cosine, cosine)"),
        ),
        (
            "test_numbers_are_independent_of_each_other_and_between_calls",
            "test_every_coordinate_gets_fresh_noise_at_every_step",
        ),
        "training.yaml",
    ),
    Fault(
        "tail cut at 3 sigma",
        (
            Patch(
                "Gaussian.normal",
                "if not filled:",
                "here.clamp_(-3 * deviation, 3 * deviation)\nif not filled:",
            ),
        ),
        (
            "test_the_distribution_is_normal",
            "test_every_coordinate_gets_fresh_noise_at_every_step",
        ),
        "training.yaml",
    ),
    Fault(
        "a third of the noise shared",  # by all numbers of a step
        (
            Patch(
                "Fast._draw",
                "self._source.normal(self._engine.sum, self._deviation)",
                "self._source.normal(self._engine.sum, self._deviation)\n"
                "shared = float(self._engine.sum[0]) * (1 / 3) ** 0.5\n"
                "self._engine.sum.mul_((2 / 3) ** 0.5).add_(shared)",
            ),
        ),
        ("test_every_coordinate_gets_fresh_noise_at_every_step",),
        "training.yaml",
    ),
    Fault(
        "noise of an earlier step",  # of one of the first 64, in no order
        (
            Patch(
                "Fast._draw",
                "self._source.normal(self._engine.sum, self._deviation)",
                "self._source.normal(self._engine.sum, self._deviation)\n"
                "pool = vars(self).setdefault('_pool', [])\n"
                "pool += [self._engine.sum.clone()] * (len(pool) < 64)\n"
                "self._engine.sum.copy_(pool[int(secure_rng().integers(len(pool)))])",
            ),
        ),
        ("test_every_coordinate_gets_fresh_noise_at_every_step",),
        "training.yaml",
    ),
    Fault(
        "secure tier halved",
        (Patch("Secure.finish", "noise_multiplier=multiplier", "noise_multiplier=multiplier / 2"),),
        (
            "test_the_noise_of_the_secure_tier_is_on_a_grid_and_has_its_distribution",
            "test_the_sensitivity_that_the_noise_is_for",
        ),
        "secure.yaml",
    ),
    # --- clipping, samples and the count of private training
    Fault(
        "clip at 2C",
        (Patch("Engine.factors", "lowered = clip *", "lowered = 2 * clip *"),),
        (
            "test_no_record_adds_more_than_the_clip",
            "test_contributions_of_the_secure_sum_stay_below_the_clip",
        ),
        "training.yaml",
    ),
    Fault(
        "no clipping",
        (Patch("Engine.factors", ".clamp_(max=1 / divisor)", ".fill_(1 / divisor)"),),
        (
            "test_no_record_adds_more_than_the_clip",
            "test_contributions_of_the_secure_sum_stay_below_the_clip",
        ),
        "training.yaml",
    ),
    Fault(
        "one parameter left out of the norm",
        (
            Patch(
                "Pass.total",
                "squared_norms_of([part for _, part in present])",
                "squared_norms_of([part for _, part in present[:-1] or present])",
            ),
        ),
        (
            "test_steps_are_those_of_the_inner_optimizer_on_clipped_sums",
            "test_contributions_of_the_secure_sum_stay_below_the_clip",
        ),
        "training.yaml",
    ),
    Fault(
        "clip per tensor",
        (Patch("Pass.total", "torch.stack(sums).sum(0)", "torch.stack(sums).amax(0)"),),
        ("test_steps_are_those_of_the_inner_optimizer_on_clipped_sums",),
        "training.yaml",
    ),
    Fault(
        "first records sampled more often",  # and the others never: the mean is right
        (
            Patch(
                "Sampler._units",
                "< plan.probability",
                "< 2 * plan.probability * (np.arange(plan.records) < plan.records / 2)",
            ),
        ),
        ("test_each_record_is_sampled_by_itself",),
        "training.yaml",
    ),
    Fault(
        "sampler at 1.5 q",
        (Patch("Sampler._units", "< plan.probability", "< 1.5 * plan.probability"),),
        ("test_each_record_is_sampled_by_itself",),
        "training.yaml",
    ),
    Fault(
        "fixed batches",
        (
            Patch(
                "Sampler._units",
                "np.flatnonzero(self._rng.random(plan.units) < plan.probability)",
                "np.array_split(np.arange(plan.records), plan.steps_an_epoch)[step % plan.steps_an_epoch]",
            ),
        ),
        ("test_each_record_is_sampled_by_itself",),
        "training.yaml",
    ),
    Fault(
        "a failed step lends its noise to the next",
        (Patch("PrivateOptimizer._finish", "self.abandon()", "pass"),),
        ("test_after_a_step_that_failed_halfway_the_next_is_paid_for_and_has_noise_of_its_own",),
        None,
    ),
    Fault(
        "samples that are cut for nothing",
        (Patch("Plan._log2_slack", "float(np.logaddexp2(LOG2_SLACK[self.tier], cut))", "LOG2_SLACK[self.tier]"),),
        ("test_what_is_cut_is_paid_for_as_slack",),
        None,
    ),
    Fault(
        "division by the actual batch",
        (
            Patch(
                "PrivateOptimizer._release",
                "self._sum.finish(clip, self.plan.noise_of(self.steps))",
                "self._sum.finish(clip, self.plan.noise_of(self.steps))\n"
                "engine.sum.mul_(self.plan.batch / max(1, self._seen))",
            ),
        ),
        (
            "test_steps_are_those_of_the_inner_optimizer_on_clipped_sums",
            "test_the_default_noise_has_the_deviation_that_is_paid_for",
        ),
        "training.yaml",
    ),
    Fault(
        "empty samples skipped",
        (
            Patch(
                "PrivateOptimizer.begin",
                "self._finish() return",
                "self.steps += 1\nself._forget_sample()\nreturn",
            ),
        ),
        ("test_an_empty_sample_steps_with_noise",),
        "training.yaml",
    ),
    Fault(
        "adaptive count without noise",
        (Patch("next_norm", "float(released.value[0])", "float(centred[0])"),),
        ("test_the_clipping_norm_follows_a_noisy_count",),
        "adaptive.yaml",
    ),
    # --- accounting
    Fault(
        "accounting with half q",
        (Patch("Plan._event", "self.relation, self.probability, log2", "self.relation, self.probability / 2, log2"),),
        ("test_gaussian_noise_on_poisson_samples",),
        None,
    ),
    Fault(
        "accounting with a step less",
        (Patch("Plan._ledger", "[(1.0, steps)]", "[(1.0, max(1, steps - 1))]"),),
        ("test_gaussian_noise_on_poisson_samples",),
        None,
    ),
    Fault(
        "optimistic PLD",  # losses are rounded down
        (Patch("_dealt", "np.clip(up, 0.0, masses)", "np.zeros_like(masses)"),),
        ("test_a_sampled_step_is_never_priced_below_what_it_costs",),
        None,
    ),
    # --- owners
    Fault(
        "records of an owner clipped one by one",
        (Patch("PrivateOptimizer._take", "self.engine.gather(piece.starts)", "pass"),),
        ("test_steps_are_those_of_a_loop_over_owners", "test_an_owner_adds_at_most_the_clipping_norm_whatever_it_has"),
        "owners.yaml",
    ),
    # --- clients of a federation
    Fault(
        "ledger of records not kept",
        (Patch("RecordLedger.state", '"records": self._ledger.to_json()["lines"]', '"records": []'),),
        ("test_a_restart_forgets_nothing_that_was_spent",),
        None,
    ),
    Fault(
        "number of records sent",
        (Patch("Client._train", "return Learned(work.model, trained, 1)", "pass"),),
        ("test_every_protection_of_updates_goes_along",),
        None,
    ),
    Fault(
        "local DP with C for 2C",
        (Patch("LocalDP.protect", "sensitivity=2 * clip", "sensitivity=clip"),),
        ("test_local_noise_has_the_size_of_the_claim",),
        "local_dp.yaml",
    ),
    Fault(
        "client uploads not kept",
        (Patch("Client.state", '"uploads": self._uploads', '"uploads": 0'),),
        ("test_a_client_that_restarts_has_answered_and_paid_what_it_had",),
        "local_dp.yaml",
    ),
    Fault(
        "client rounds not kept",
        (Patch("Client._work", "self._attempts = work.round + 1", "self._attempts = 0"),),
        ("test_a_client_answers_each_round_once",),
        "masks.yaml",
    ),
    Fault(
        "client participations not kept",
        (Patch("Client.state", '"sums": self._sums', '"sums": 0'),),
        ("test_a_coordinator_that_asks_in_every_round_gets_no_more_uploads_than_the_cap",),
        "participations.yaml",
    ),
    Fault(
        "evaluation with sensitivity 1",
        (Patch("protect", "sensitivity=SENSITIVITY", "sensitivity=1.0"),),
        ("test_the_noise_has_the_scale_of_sensitivity_two",),
        "evaluation.yaml",
    ),
    Fault(
        "noise of inference vectors kept",  # and used again for the next ones
        (
            Patch(
                "protect",
                'return mechanisms.laplace(vectors, sensitivity=SENSITIVITY, epsilon=epsilon, unit="client", rng=rng)',
                'made = mechanisms.laplace(vectors, sensitivity=SENSITIVITY, epsilon=epsilon, unit="client", rng=rng)\n'
                "kept = globals().setdefault('_kept', {}).setdefault(vectors.shape, made.value - vectors)\n"
                "return Released(vectors + kept, made.event)",
            ),
        ),
        ("test_inference_vectors_have_noise_of_their_own",),
        "evaluation.yaml",
    ),
    Fault(
        "Skellam with half a share",
        (
            Patch(
                "SkellamEncoding.encode", "noise.skellam(self.share_variance,", "noise.skellam(self.share_variance / 2,"
            ),
        ),
        ("test_mean_and_variance_of_the_aggregate_under_dropouts",),
        "distributed_dp.yaml",
    ),
    Fault(
        "Skellam without colluders",
        (Patch("SkellamEncoding.share_variance", "(self.fewest - self.colluders)", "self.fewest"),),
        ("test_colluders_noise_is_not_counted_on",),
        "distributed_dp.yaml",
    ),
    Fault(
        "Skellam without clip",
        (
            Patch("SkellamEncoding.encode", "clip_l2(array, self.clip)", "pass"),
            Patch("SkellamEncoding._round", "int(rounded @ rounded) <= self.l2_sensitivity**2", "True"),
        ),
        ("test_weights_are_equal_and_updates_clipped",),
        "distributed_dp.yaml",
    ),
    # --- secure aggregation
    Fault(
        "masks reused over two rounds",  # by clients of one process: the keys of the first round, and no session
        (
            Patch(
                "Client.__init__",
                "KeyPair.generate(rng), KeyPair.generate(rng)",
                f"KeyPair.generate(rng), KeyPair({_KEPT})",
            ),
            Patch("Client.__init__", "bytearray(random_bytes(rng, 32))", f"bytearray({_KEPT})"),
            Patch("mask_key", "tie.pair_context(tie.MASKING, session,", "tie.pair_context(tie.MASKING, b'',"),
            Patch("self_mask_key", "frame(SELF_MASK, session, seed)", "frame(SELF_MASK, seed)"),
        ),
        ("test_no_mask_is_used_in_two_rounds",),
        "masks.yaml",
    ),
    Fault(
        "masks over a part of the vector",
        (
            Patch(
                "Client._masked",
                "add_masks(words, keys, threads=self._threads)",
                "part = words[: len(words) * 3 // 4].copy()\n"
                "add_masks(part, keys, threads=self._threads)\n"
                "words[: len(part)] = part",
            ),
        ),
        ("test_masks_of_honest_clients",),
        "masks.yaml",
    ),
    Fault(
        "a sum of one client too few",
        (Patch("Client._survive", "survivors.total < self._minimum:", "survivors.total < self._minimum - 1:"),),
        ("test_no_client_helps_to_open_a_sum_of_too_few",),
        "distributed_dp.yaml",
    ),
    Fault(
        "a survivor's key share revealed",  # in a second message, so that the sum still opens
        (
            Patch(
                "Client._reveal",
                "self._end(State.DONE)",
                'keys = b"".join(self._held[i][:half] for i in ids)\n'
                "reply.append(Reveal(self._session, self.identity, pack_ids(ids), keys))\n"
                "self._end(State.DONE)",
            ),
        ),
        ("test_a_client_reveals_one_share_of_each_peer_and_of_the_right_kind",),
        "masks.yaml",
    ),
    # --- oblivious transfer; an audit does not run long enough to notice
    Fault(
        "a tweak used before it is stored",
        (Patch("Counter._move", "self._keep(kept)", "pass"),),
        ("test_numbers_are_kept_before_they_are_given_out",),
        None,
    ),
    Fault(
        "one tweak for all products of a table",
        (
            Patch("Made._given", "self.counter.take(factors.shape[1])", "range(factors.shape[1])"),
            Patch("Held._taken", "self.counter.take(outputs)", "range(outputs)"),
        ),
        ("test_the_same_factor_twice_is_sent_as_other_words",),
        None,
    ),
    Fault(
        "lookups without a mask",
        (Patch("look_up_first", "random_words(rng, len(own))", "np.zeros(len(own), dtype=np.uint64)"),),
        ("test_labels_cannot_be_guessed_from_what_the_passive_looks_up",),
        None,
    ),
    Fault(
        "the same words for every value of boosted trees",
        (
            Patch(
                "_permutation",
                'f"words of leaves under tweak {value.tweak} of {value.meeting.hex()}"',
                '"words of leaves"',
            ),
        ),
        ("test_words_of_other_features_rows_tweaks_and_meetings_are_other_words",),
        None,
    ),
    Fault(
        "nodes of few rows opened",
        (Patch("KnownNodes._open", "min(rest, len(rows)) < self._least", "False"),),
        ("test_a_node_is_refused_if_it_or_its_sibling_has_too_few_rows",),
        None,
    ),
    Fault(
        "categories with the higher labels on the left",
        (Patch("_Cuts.split", "left if left[0] else ~left", "left"),),
        ("test_what_an_owner_sees_of_a_tree_is_the_same_if_all_gradients_are_of_the_other_sign",),
        None,
    ),
    Fault(
        "words of a tree without their tweak",
        (Patch("words", "keyed(leaves[:, part], tweak)", "keyed(leaves[:, part], 0)"),),
        ("test_words_are_those_of_one_leaf_at_a_time",),
        None,
    ),
    Fault(
        "transfers of one number",
        (Patch("_End._tweaks", "self.used += count", "self.used += 0"),),
        ("test_no_tweak_is_hashed_twice_in_a_session",),
        None,
    ),
)
