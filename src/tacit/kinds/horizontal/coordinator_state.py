"""Whether a state that was stored can be one of a coordinator."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.kinds.horizontal.answered import check_answers
from tacit.kinds.horizontal.settings import Settings


def check_state(state: dict[str, Any], settings: Settings, first_clip: float) -> None:
    """Refuse a state that no run can have stored: with less spent than it must be, above all."""

    def require(holds: bool, what: str) -> None:
        if not holds:
            raise ValueError(f"the stored state cannot be: {what}")

    for name in ("round", "attempts", "sums"):
        require(type(state.get(name)) is int and state[name] >= 0, f"{name} is {state.get(name)!r}")
    require(state["round"] <= state["attempts"], f"{state['round']} rounds finished of {state['attempts']} begun")
    require(state["sums"] <= state["attempts"], f"{state['sums']} sums of {state['attempts']} rounds")
    clip = state.get("clip")
    require(type(clip) is float and 0 < clip <= first_clip, f"clip is {clip!r}")
    clients, uploads = state.get("clients"), state.get("uploads")
    whole = all(isinstance(a, np.ndarray) and a.dtype == np.int64 and a.ndim == 1 for a in (clients, uploads))
    require(whole and len(clients) == len(uploads) == len(set(clients.tolist())), "its uploads have no clients")  # type: ignore[union-attr, arg-type]
    require(all(0 <= client < settings.clients for client in clients.tolist()), "it contains unknown client ids")  # type: ignore[union-attr]
    require(all(0 < count <= state["attempts"] for count in uploads.tolist()), "its uploads are impossible")  # type: ignore[union-attr]
    excluded = state.get("excluded", np.empty(0, dtype=np.int64))
    require(isinstance(excluded, np.ndarray) and excluded.dtype == np.int64, "its excluded clients are no numbers")
    require(all(0 <= client < settings.clients for client in excluded.tolist()), "it excludes unknown clients")
    check_answers(state, settings)
