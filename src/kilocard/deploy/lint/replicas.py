"""Mistakes about replicas together: how they are rolled out, spread, and taken away."""

from __future__ import annotations

from kilocard.deploy.lint.manifests import at, mapping
from kilocard.deploy.lint.world import Found, World, chooses

ROLLED = ("Deployment", "StatefulSet", "LeaderWorkerSet")


def a_surge_needs_cards_that_are_not_there(world: World) -> Found:
    """A Deployment starts 25 % more before it ends one: on a full cluster they wait for ever."""
    for owner in world.of_kind("Deployment"):
        surge = at(owner.spec, "strategy", "rollingUpdate", "maxSurge")
        is_recreated = at(owner.spec, "strategy", "type") == "Recreate"
        if world.serves(owner) and not is_recreated and str(surge) not in ("0", "0%"):
            said = "25% unless it says otherwise" if surge is None else surge
            yield (
                owner,
                (
                    "fault",
                    f"maxSurge is {said}: a roll-out first wants more cards than the pool has, and waits for "
                    "ever on a full cluster; maxSurge: 0 and a maxUnavailable",
                ),
            )


def everything_is_recreated_at_once(world: World) -> Found:
    """Recreate ends all replicas before it starts one."""
    for owner in world.of_kind("Deployment"):
        if at(owner.spec, "strategy", "type") == "Recreate" and owner.replicas > 1 and world.serves(owner):
            yield (
                owner,
                (
                    "fault",
                    "strategy Recreate ends every replica before it starts one: RollingUpdate, a quarter",
                ),
            )


def nobody_counts_who_is_taken_away(world: World) -> Found:
    """Whoever empties nodes asks the budgets."""
    budgets = [mapping(at(it.spec, "selector", "matchLabels")) for it in world.of_kind("PodDisruptionBudget")]
    for owner in world.of_kind(*ROLLED):
        labels = [mapping(at(template, "metadata", "labels")) for template in owner.templates]
        if (
            world.serves(owner)
            and owner.replicas > 1
            and not any(wanted and chooses(wanted, label) for wanted in budgets for label in labels)
        ):
            yield owner, ("risk", "no PodDisruptionBudget chooses it: a drain of nodes may take all at once")


def a_budget_allows_nothing(world: World) -> Found:
    """Nodes can then never be emptied."""
    for budget in world.of_kind("PodDisruptionBudget"):
        wanted = mapping(at(budget.spec, "selector", "matchLabels"))
        least, most = budget.spec.get("minAvailable"), budget.spec.get("maxUnavailable")
        for owner, _ in world.selected(wanted, budget.namespace):
            told = isinstance(least, int) and "replicas" in owner.spec and least >= owner.replicas
            if told or str(least) == "100%" or str(most) in ("0", "0%"):
                yield budget, ("fault", f"it lets none of {owner} go: no node under it can ever be emptied")


def replicas_share_a_node(world: World) -> Found:
    """A node's end is then the pool's."""
    for owner in world.of_kind("Deployment", "StatefulSet"):
        if owner.replicas < 2 or not world.serves(owner):
            continue
        pod = mapping(at(owner.templates[0], "spec"))
        if not pod.get("topologySpreadConstraints") and not at(pod, "affinity", "podAntiAffinity"):
            yield owner, ("risk", "nothing spreads its replicas: one node, rack or switch may have them all")


RULES = {
    "surge-on-full": a_surge_needs_cards_that_are_not_there,
    "recreate": everything_is_recreated_at_once,
    "no-disruption-budget": nobody_counts_who_is_taken_away,
    "budget-allows-nothing": a_budget_allows_nothing,
    "replicas-share-a-node": replicas_share_a_node,
}
