"""Mistakes about cards: their number, their shared memory, who hands them out."""

from __future__ import annotations

from collections.abc import Iterator

from kilocard.deploy.lint.engine import Engine
from kilocard.deploy.lint.manifests import at
from kilocard.deploy.lint.world import Told

LOADS_FROM = ("/", "s3://", "gs://")


def cards_are_not_the_layout(engine: Engine) -> Iterator[Told]:
    """A limit of 8 for an engine of one card leaves seven idle, and reserved."""
    cards, ranks = engine.cards("limits"), engine.ranks
    if cards is None or cards == ranks:
        return
    if cards > ranks:
        told = (
            f"it reserves {cards} cards and its layout (TP x PP x DP) uses {ranks}: {cards - ranks} stay "
            "idle, "
            f"whatever CUDA_VISIBLE_DEVICES says; ask for {ranks}, or run {cards // ranks} replicas"
        )
    else:
        told = f"its layout (TP x PP x DP) needs {ranks} cards and it gets {cards}: it will not start"
    yield "fault", told


def no_cards_are_asked_for(engine: Engine) -> Iterator[Told]:
    """Without a limit the pod gets no card, or every card of the node behind the scheduler's back."""
    if engine.cards("limits") is None:
        yield (
            "fault",
            "no card is among its limits: the scheduler puts it anywhere; limits: {nvidia.com/gpu: "
            f"{engine.ranks}}}",
        )


def cards_requested_are_not_the_limit(engine: Engine) -> Iterator[Told]:
    """Cards are not overcommitted: the API refuses it."""
    asked, limit = engine.cards("requests"), engine.cards("limits")
    if asked is not None and asked != limit:
        yield "fault", f"it requests {asked} cards and its limit is {limit}: the API takes only equal ones"


def cards_are_chosen_by_hand(engine: Engine) -> Iterator[Told]:
    """The device plugin says which cards a pod sees."""
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if engine.environment.get(name) not in (None, "", "void"):
            yield (
                "fault",
                f"{name} is set by hand, and the device plugin hands out the cards: it hides some of them, "
                "or "
                "shows other pods' cards; leave it out",
            )


def shared_memory_is_small(engine: Engine) -> Iterator[Told]:
    """Ranks exchange through /dev/shm, of which a container has 64 MiB by itself."""
    if engine.ranks < 2 or at(engine.pod, "hostIPC") is True:
        return
    volume = engine.volumes.get(engine.mounts.get("/dev/shm", ""), {})
    if at(volume, "emptyDir", "medium") != "Memory":
        yield (
            "fault",
            f"{engine.ranks} ranks share 64 MiB of /dev/shm: collectives fail or crawl; mount an emptyDir of "
            "medium Memory there",
        )


def nodes_are_any(engine: Engine) -> Iterator[Told]:
    """Where card models are mixed, an engine that fits one is put on another."""
    chosen = engine.pod.get("nodeSelector") or at(engine.pod, "affinity", "nodeAffinity")
    if engine.cards("limits") and not chosen:
        yield (
            "risk",
            "it may land on any card model: its memory and speed are then another's; choose nodes by "
            "nodeSelector, like nvidia.com/gpu.product",
        )


def memory_is_unbounded(engine: Engine) -> Iterator[Told]:
    """Host memory grows with weights that are loaded and with what is offloaded."""
    for what in ("requests", "limits"):
        if at(engine.container, "resources", what, "memory") is None:
            yield (
                "risk",
                f"no memory among its {what}: on a full node it is evicted, or starves its neighbours; set "
                "it",
            )
            return


def weights_are_not_mounted(engine: Engine) -> Iterator[Told]:
    """A model's folder must be below a mount."""
    model = engine.flag("--model") or ""
    if model.startswith("/") and not any(
        model == path or model.startswith(path.rstrip("/") + "/") for path in engine.mounts
    ):
        yield "fault", f"--model {model} is below no mount of the container: it will not start"


def weights_are_fetched_at_each_start(engine: Engine) -> Iterator[Told]:
    """A hub's id without a cache that stays."""
    model = engine.flag("--model") or ""
    if not model or model.startswith(LOADS_FROM):
        return
    cache = str(engine.environment.get("HF_HUB_CACHE") or engine.environment.get("HF_HOME") or "")
    kept = [
        name
        for path, name in engine.mounts.items()
        if ("huggingface" in path or ".cache" in path or (cache and cache.startswith(path)))
        and any(kind in engine.volumes.get(name, {}) for kind in ("persistentVolumeClaim", "hostPath"))
    ]
    if not kept:
        yield (
            "risk",
            f"--model {model} is fetched from a hub at every start: replicas that come up together pull it "
            "all "
            "at once, and none comes up where the hub is not; put the weights on a volume",
        )


RULES = {
    "cards-not-layout": cards_are_not_the_layout,
    "no-cards": no_cards_are_asked_for,
    "cards-requested-not-limit": cards_requested_are_not_the_limit,
    "cards-by-hand": cards_are_chosen_by_hand,
    "small-shared-memory": shared_memory_is_small,
    "any-card": nodes_are_any,
    "no-memory-bound": memory_is_unbounded,
    "weights-not-mounted": weights_are_not_mounted,
    "weights-fetched": weights_are_fetched_at_each_start,
}
