"""Mistakes about the files themselves: what stands there twice, and what should not stand there."""

from __future__ import annotations

from collections import Counter

from kilocard.deploy.lint.manifests import at, mapping, rows
from kilocard.deploy.lint.world import Found, World
from kilocard.specs.cluster.secrets import is_secret_name, looks_secret


def names_are_there_twice(world: World) -> Found:
    """The later one replaces the earlier."""
    counted = Counter((it.kind, it.namespace, it.name) for it in world.objects if it.kind != "Kustomization")
    for owner in world.objects:
        if counted[owner.kind, owner.namespace, owner.name] > 1 and owner.name:
            yield owner, ("fault", "another object has its kind and name: the one applied last replaces it")


def secrets_stand_in_the_files(world: World) -> Found:
    """Whoever reads the repository has them."""
    for owner in world.objects:
        if owner.kind == "Secret" and (owner.content.get("data") or owner.content.get("stringData")):
            yield (
                owner,
                ("fault", "its values stand in the file: base64 hides nothing; create it beside the files"),
            )
        if owner.kind == "ConfigMap":
            for name, value in mapping(owner.content.get("data")).items():
                if looks_secret(str(value)) or is_secret_name(str(name)):
                    yield owner, ("fault", f"{name} looks like a secret: a ConfigMap is read by everybody")
        for template in owner.templates:
            for container in rows(at(template, "spec", "containers")):
                for row in rows(container.get("env")):
                    plain = row.get("value")
                    if plain and (is_secret_name(str(row.get("name"))) or looks_secret(str(plain))):
                        yield (
                            owner,
                            ("fault", f"{row.get('name')} is a secret in plain: valueFrom a secretKeyRef"),
                        )


RULES = {
    "name-twice": names_are_there_twice,
    "secret-in-file": secrets_stand_in_the_files,
}
