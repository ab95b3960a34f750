"""The cluster file: what it takes, what the environment changes, and what it refuses, in one line each."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.routing.policies import POLICIES, REFERENCE
from kilocard.specs import ClusterSpec, cluster_from, read_cluster
from kilocard.specs.cluster import Timeouts, differences, needs_restart

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "data" / "clusters").glob("*.yaml"))
CHAT = {"name": "chat", "replicas": ["http://127.0.0.1:8001", "http://127.0.0.1:8002"]}
NIGHT = {"name": "night", "role": "batch", "replicas": ["http://127.0.0.1:8003"]}
CLUSTER = {"name": "test", "model": "smollm2-135m", "pools": [CHAT]}


def a_cluster(gateway: dict[str, Any] | None = None, **top: Any) -> ClusterSpec:
    return cluster_from({**CLUSTER, **({"gateway": gateway} if gateway is not None else {}), **top})


def with_replica(**replica: Any) -> dict[str, Any]:
    return {"pools": [{**CHAT, "replicas": [{"url": "http://127.0.0.1:8001", **replica}]}]}


def write(folder: Path, content: Any) -> Path:
    path = folder / "cluster.yaml"
    text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_read_and_said_again(path: Path) -> None:
    spec = read_cluster(path, {})
    assert cluster_from(spec.model_dump()) == spec
    assert cluster_from(spec.model_dump(mode="json", by_alias=True)) == spec
    assert read_cluster(path, {}) == spec


def test_the_example_of_every_key_has_them_all_at_their_defaults() -> None:
    path = ROOT / "data" / "clusters" / "every-key.yaml"
    said = yaml.safe_load(path.read_text(encoding="utf-8"))
    spec = read_cluster(path, {})
    least = {"url": "http://127.0.0.1:8001"}
    assert spec == cluster_from(
        {"name": spec.name, "model": spec.model, "pools": [{"name": "chat", "replicas": [least]}]}
    )
    told = set(places_of(spec.model_dump(mode="json", by_alias=True)))
    assert told - {".pools.0.count", ".pools.0.discovery"} == set(places_of(said))


def places_of(content: Any, place: str = "") -> Iterator[str]:
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        inner = f"{place}.{key}"
        yield inner
        if isinstance(value, dict | list):
            yield from places_of(value, inner)


def test_a_replica_is_a_url_or_more() -> None:
    spec = a_cluster(
        pools=[
            {
                **CHAT,
                "cap": 24,
                "replicas": [
                    "http://127.0.0.1:8001/v1/",
                    "box-2:8001",
                    {"url": "http://[::1]:8003", "cap": 0, "id": "six"},
                    {"url": "http://BOX-3", "weight": 0.5},
                    "http://[::1]:8004",
                ],
            }
        ]
    )
    pool = spec.pools[0]
    assert [(r.url, r.id, r.host, r.port, pool.cap_of(r)) for r in pool.replicas] == [
        ("http://127.0.0.1:8001", "127.0.0.1:8001", "127.0.0.1", 8001, 24),
        ("http://box-2:8001", "box-2:8001", "box-2", 8001, 24),
        ("http://[::1]:8003", "six", "::1", 8003, 0),
        ("http://box-3:80", "box-3:80", "box-3", 80, 24),
        ("http://[::1]:8004", "[::1]:8004", "::1", 8004, 24),
    ]


def test_what_is_left_out_is_what_one_would_run() -> None:
    spec = a_cluster()
    gateway = spec.gateway
    assert gateway.host == gateway.admin.host == gateway.metrics.host == spec.balancer.host == "127.0.0.1"
    assert gateway.policy == REFERENCE in POLICIES
    assert [place.port for place in a_cluster({"gateways": 3}).gateway_places] == [8080, 8081, 8082]
    assert spec.models == ("smollm2-135m",)
    assert [its.max_wait_s for its in gateway.classes.by_rank] == sorted(
        its.max_wait_s for its in gateway.classes.by_rank
    )


def test_a_door_that_is_moved_keeps_its_port() -> None:
    gateway = a_cluster(
        {"admin": {"keys": {"file": "k"}, "host": "0.0.0.0"}, "metrics": {"host": "::"}}
    ).gateway
    assert (gateway.admin.port, gateway.metrics.port) == (9600, 9400)


def test_pools_name_models_of_their_own() -> None:
    spec = a_cluster(pools=[CHAT, {**NIGHT, "model": "org/other:v2"}])
    assert spec.models == ("smollm2-135m", "org/other:v2")
    assert [pool.name for pool, _ in spec.replicas] == ["chat", "chat", "night"]


@given(st.integers(1, 1_000_000), st.floats(0.001, 1), st.floats(0.1, 100))
def test_the_longest_generation_grows_with_its_tokens(tokens: int, tpot_s: float, margin_s: float) -> None:
    timeouts = Timeouts(slowest_tpot_s=tpot_s, margin_s=margin_s)
    assert timeouts.longest_s(tokens) >= tokens * tpot_s + margin_s
    assert timeouts.longest_s(tokens + 1) > timeouts.longest_s(tokens)
    assert Timeouts(total_s=900).longest_s(tokens) == 900


def test_limits_of_tenants_are_their_own_or_everybodys() -> None:
    tenants = {"acme": {"requests_per_s": 5}, "default": {"ceiling": "batch"}}
    gateway = a_cluster({"keys": {"file": "keys"}, "tenants": tenants}).gateway
    assert gateway.tenant("acme").requests_per_s == 5
    assert gateway.tenant("somebody").ceiling == "batch"
    assert a_cluster().gateway.tenant("somebody").requests_per_s is None


OPEN = {"host": "0.0.0.0", "open": True}


@pytest.mark.parametrize(
    ("top", "said"),
    [
        ({"gateway": {"port": 70000}}, "gateway.port: Input should be less than or equal to 65535 (given: 7"),
        ({"gateway": {"port": True}}, "gateway.port: true and false are no numbers"),
        ({"gateway": {"prot": 1}}, "gateway: unknown key 'prot': did you mean 'port'?"),
        ({"gatway": {}}, "unknown key 'gatway': did you mean 'gateway'?"),
        ({"replicas": 3}, "unknown key 'replicas': they stand in a pool"),
        ({"gateway": {"workers": 3}}, "unknown key 'workers': gateways are the cluster's"),
        ({"gateway": {"host": "0.0.0.0"}}, "set keys, or open: true where another door stands in front"),
        ({"gateway": {"host": "http://a"}}, "gateway.host: a host is a name or an IP address"),
        ({"gateway": {"host": "1.2.3.256"}}, "it is no IP address"),
        ({"gateway": {"open": True, "keys": {"file": "k"}}}, "open: true asks for no key, and keys"),
        ({"gateway": {"admin": {"host": "10.0.0.1"}}}, "lets other machines steer the gateway: set keys"),
        ({"gateway": {"admin": {"port": 9401}, "gateways": 2}}, "admin.port 9401 to 9402 and metrics.port"),
        ({"gateway": {"admin": {"port": 8080}}}, "admin.port 8080 and port 8080 meet"),
        ({"gateway": {"metrics": {"port": 65535}, "gateways": 2}}, "metrics.port 65535 leaves no ports"),
        ({"gateway": {"gateways": 2, "places": ["a:1"]}}, "gateways is 2 and places has 1"),
        ({"gateway": {"gateways": 2, "places": ["a:1", "a:1"]}}, "places names a:1 twice"),
        ({"gateway": {"places": ["a"]}}, "the place of a gateway is host:port"),
        ({"gateway": {"classes": {"async": {"max_wait_s": 30}}}}, "classes.async.max_wait_s 30 is not over"),
        ({"gateway": {"classes": {"urgent": {"max_wait_s": 30}}}}, "unknown key 'urgent'"),
        ({"gateway": {"queue": {"limit": -1}}}, "gateway.queue.limit: Input should be greater"),
        ({"gateway": {"timeouts": {"total_s": 5}}}, "total_s 5 is not over connect_s + first_byte_s = 62"),
        ({"gateway": {"timeouts": {"connect_s": 0}}}, "gateway.timeouts.connect_s: Input should be"),
        ({"gateway": {"timeouts": {"connect_s": 5e-324}}}, "greater than or equal to 0.001"),
        ({"gateway": {"health": {"slow": {"ratio": 1.2}}}}, "recovered_ratio 1.5 is not under ratio 1.2"),
        ({"gateway": {"tenants": {"a": {}}}}, "tenants are told apart by their keys, and there are none"),
        ({"gateway": {"tenants": {"a b": {}}}}, "a name is 1 to 63 letters"),
        ({"gateway": {"tenants": {"default": {"ceiling": "urgent"}}}}, "'interactive', 'async' or 'batch'"),
        ({"gateway": {"canary": {"version": "v2", "share": 0.1}}}, "canary.version v2 is no replica's"),
        ({"gateway": {"failover": ["east"]}}, "failover names east, which is no replica's group"),
        ({"gateway": {"failover": ["a", "a"]}}, "failover names a twice: it would go round"),
        ({"gateway": {"keys": "kc-s3cret"}}, "a secret does not stand in the cluster file"),
        ({"gateway": {"keys": {"key": "kc-s3cret"}}}, "unknown key 'key': known: file, variable"),
        ({"gateway": {"keys": {"file": "k", "variable": "K"}}}, "a secret has one place"),
        ({"gateway": {"keys": {"variable": "kc-s3cret"}}}, "String should match pattern"),
        ({"gateway": {"api_key": "kc-s3cret"}}, "no key stands in the file"),
        ({"gateway": {"gateways": 129}}, "less than or equal to 128"),
        ({"name": 1}, 'a name is text: write it in quotes, "1"'),
        ({"model": "a b"}, "a model's name is 1 to 200 printable ASCII"),
        ({"pools": []}, "pools: Tuple should have at least 1 item"),
        ({"pools": [CHAT, CHAT]}, "two pools are called chat"),
        ({"pools": [CHAT, {**NIGHT, "replicas": CHAT["replicas"]}]}, "http://127.0.0.1:8001 is there twice"),
        ({"pools": [{**CHAT, "replicas": [{"url": "a:1", "id": "x"}, {"url": "b:1", "id": "x"}]}]},
         "two replicas are called x"),
        ({"pools": [{**CHAT, "replicas": 0}]}, "pools.0.replicas: Input should be greater than 0"),
        ({"pools": [{"name": "chat"}]}, "pool chat has no replicas: give their number, a list of URLs"),
        ({"pools": [{**CHAT, "min_warm": 1}]}, (
            "pool chat has min_warm, and its engines are not ours to "
            "start"
        )),
        ({"pools": [CHAT, {**CHAT, "name": "b", "replicas": ["c:1"]}]}, (
            "chat has role chat for "
            "smollm2-135m"
        )),
        ({"pools": [{**CHAT, "role": "online"}]}, "'chat', 'long', 'multimodal', 'batch' or 'buffer'"),
        ({"pools": [{**CHAT, "cap": 0.5}]}, "pools.0.cap: Input should be a valid integer"),
        ({"pools": [{**CHAT, "cap": 1}], "gateway": {"gateways": 3}}, "the caps of pool chat are 2 in all"),
        ({"pools": [{**CHAT, "borrow_from": ["nigth"]}, NIGHT]}, "borrows from nigth: did you mean 'night'?"),
        ({"pools": [{**CHAT, "borrow_from": ["chat"]}]}, "pool chat borrows from itself"),
        ({"pools": [CHAT, {**NIGHT, "borrow_from": ["chat"]}]}, "never the reverse"),
        ({"pools": [{**CHAT, "borrow_from": ["night"]}, {**NIGHT, "role": "long"}]}, "is online (long)"),
        ({"pools": [{**CHAT, "borrow_from": ["night"]}, {**NIGHT, "model": "m"}]}, "a lender serves the"),
        ({"pools": [CHAT, {**NIGHT, "role": "buffer"}]}, "nothing is ever sent to pool night"),
        (with_replica(url="https://a:1"), "https:// is not spoken to engines"),
        (with_replica(url="http://u:s3cret@a:1"), "a URL holds no password"),
        (with_replica(url="http://a:1/v1/chat"), "the URL of an engine ends with its port"),
        (with_replica(url="http://a:0"), "it names no host, or port 0"),
        (with_replica(url="http://a:99999"), "it is no URL of an engine"),
        (with_replica(url="http://:80"), "it names no host"),
        (with_replica(url="http://a\nb:80"), "a URL has no space and no line break within"),
        (with_replica(url="http://a b:80"), "a URL has no space and no line break within"),
        (with_replica(weight=2), "pools.0.replicas.0.weight: Input should be less than or equal to 1"),
        (with_replica(version=1.5), 'a name is text: write it in quotes, "1.5"'),
        (with_replica(id="a b"), "pools.0.replicas.0.id: a name is 1 to 63"),
        (with_replica(port=80), "unknown key 'port': a replica has a url"),
        ({"balancer": {"port": 9800}}, "balancer.port and balancer.stats_port are both 9800"),
    ],
)  # fmt: skip
def test_a_bad_file_is_told_in_one_line(top: dict[str, Any], said: str) -> None:
    with pytest.raises(KilocardError) as refusal:
        a_cluster(**top)
    told = str(refusal.value)
    assert said in told
    assert "\n" not in told and len(told) < 400 and "s3cret" not in told


def test_failover_has_every_group_and_every_replica_a_group() -> None:
    replicas = [{"url": "a:1", "group": "east"}, {"url": "b:1", "group": "west"}]
    pools = [{**CHAT, "replicas": replicas}]
    assert a_cluster({"failover": ["west", "east"]}, pools=pools).gateway.failover == ("west", "east")
    with pytest.raises(KilocardError, match=r"replica b:1 is of west, which gateway.failover does not name"):
        a_cluster({"failover": ["east"]}, pools=pools)


def test_every_missing_key_is_told_at_once() -> None:
    with pytest.raises(KilocardError, match="model, pools: missing, and needed"):
        cluster_from({"name": "a"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gateway:\n  port: 0\n", "line 6: gateway.port: "),
        ("gateway:\n  port: 80\n  prot: 0\n", "line 7: gateway: unknown key 'prot'"),
        ("gateway:\n  health:\n    slow: {share: 2}\n", "line 7: gateway.health.slow.share"),
        ("gatewy: {}\n", "line 5: unknown key 'gatewy'"),
        ("gateway: &a\n  x: *a\n", "gateway"),
    ],
)
def test_a_fault_has_the_line_of_its_key(tmp_path: Path, text: str, said: str) -> None:
    head = "name: a\nmodel: m\npools:\n  - {name: chat, replicas: ['http://127.0.0.1:8001']}\n"
    with pytest.raises(KilocardError) as refusal:
        read_cluster(write(tmp_path, head + text), {})
    assert said in str(refusal.value) and "cluster.yaml" in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no cluster: it needs at least"),
        ("- 1\n", "is no cluster"),
        ("name: a\nname: b\n", "'name' is there twice in line 2"),
        ("name: !!python/object:os.system x\n", "could not determine a constructor"),
        ("a: [1, 2\n", "cannot read the cluster"),
        ("a: " + "[" * 5000, "cannot read the cluster"),
    ],
)
def test_what_is_no_yaml_of_a_cluster_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(KilocardError) as refusal:
        read_cluster(write(tmp_path, text), {})
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


def test_aliases_that_multiply_are_read_as_fast_as_others(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
    with pytest.raises(KilocardError, match="unknown key 'a0'"):
        read_cluster(write(tmp_path, bomb), {})


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(KilocardError, match=r"cannot read the cluster /nowhere/c\.yaml: No such file"):
        read_cluster("/nowhere/c.yaml", {})


@pytest.mark.parametrize(
    ("variable", "value", "place"),
    [
        ("GATEWAY__PORT", "9000", "gateway.port"),
        ("GATEWAY__CLASSES__ASYNC__MAX_WAIT_S", "77", "gateway.classes.async.max_wait_s"),
        ("GATEWAY__LIMITS__MAX_TOKENS", "77", "gateway.limits.max_tokens"),
        ("POOLS__CHAT__CAP", "7", "pools.chat.cap"),
        ("POOLS__0__CAP", "7", "pools.chat.cap"),
        ("POOLS__CHAT__REPLICAS__1__CAP", "7", "pools.chat.replicas.127.0.0.1:8002.cap"),
        ("POOLS__CHAT__REPLICAS__ONE__CAP", "7", "pools.chat.replicas.one.cap"),
        ("NAME", "9000", "name"),
        ("BALANCER", "{port: 7000}", "balancer.port"),
    ],
)
def test_the_environment_goes_before_the_file(tmp_path: Path, variable: str, value: str, place: str) -> None:
    replicas = [{"id": "one", "url": "http://127.0.0.1:8001"}, "http://127.0.0.1:8002"]
    path = write(tmp_path, {**CLUSTER, "pools": [{**CHAT, "replicas": replicas}]})
    plain = read_cluster(path, {"KILOCARD_GATEWAY": "x", "PATH": "y"})
    changed = read_cluster(path, {f"KILOCARD__{variable}": value})
    assert differences(plain, changed) == (place,)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("GATEWAY__PORT", "x", "with KILOCARD__GATEWAY__PORT: gateway.port: Input should be a valid integer"),
        ("GATEWY__PORT", "1", "with KILOCARD__GATEWY__PORT: unknown key 'gatewy'"),
        ("GATEWAY____PORT", "1", "KILOCARD__GATEWAY____PORT names no field"),
        ("", "1", "KILOCARD__ names no field"),
        ("POOLS__CHATT__CAP", "1", "the list has no item CHATT: use a number of 0 to 0, or a name of chat"),
        ("POOLS__7__CAP", "1", "the list has no item 7"),
        ("GATEWAY__FAILOVER", "[a", "KILOCARD__GATEWAY__FAILOVER is no YAML"),
        ("GATEWAY__PORT__X", "1", "gateway.port: "),
        ("GATEWAY__KEYS", "kc-s3cret", "a secret does not stand in the cluster file"),
        ("GATEWAY__KEYS__KEY", "kc-s3cret", "unknown key 'key'"),
    ],
)
def test_a_bad_variable_is_named(tmp_path: Path, variable: str, value: str, said: str) -> None:
    with pytest.raises(KilocardError) as refusal:
        read_cluster(write(tmp_path, CLUSTER), {f"KILOCARD__{variable}": value})
    assert said in str(refusal.value) and "s3cret" not in str(refusal.value)


@given(
    st.dictionaries(
        st.from_regex(r"KILOCARD__[A-Z0-9_]{0,30}", fullmatch=True), st.text(max_size=30), max_size=3
    )
)
def test_any_environment_is_heeded_or_refused(environment: dict[str, str]) -> None:
    path = EXAMPLES[0]
    try:
        assert isinstance(read_cluster(path, environment), ClusterSpec)
    except KilocardError as error:
        assert "\n" not in str(error)


def test_files_are_looked_for_beside_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    gateway = {
        "keys": {"file": "keys"},
        "engine_key": {"file": "/run/secrets/engine"},
        "admin": {"keys": {"file": "admin"}},
        "access_log": {"path": "log/access.jsonl"},
    }
    read = read_cluster(write(tmp_path, {**CLUSTER, "gateway": gateway}), {}).gateway
    assert read.keys and read.keys.file == str(tmp_path / "keys")
    assert read.engine_key and read.engine_key.file == "/run/secrets/engine"
    assert read.admin.keys and read.admin.keys.file == str(tmp_path / "admin")
    assert read.access_log.path == str(tmp_path / "log" / "access.jsonl")


def test_a_changed_file_is_another_and_says_where() -> None:
    old = a_cluster(pools=[CHAT, NIGHT])
    moved = {**CHAT, "replicas": [*reversed(CHAT["replicas"])]}
    assert differences(old, a_cluster(pools=[NIGHT, moved])) == ()
    new = a_cluster({"port": 8081, "queue": {"limit": 7}}, pools=[{**CHAT, "cap": 9}])
    assert differences(old, new) == ("pools.chat.cap", "pools.night", "gateway.queue.limit", "gateway.port")
    assert needs_restart(differences(old, new)) == ("gateway.port",)
    assert needs_restart(differences(old, a_cluster({"metrics": {"port": 1}}, pools=[CHAT, NIGHT])))


def test_the_schema_is_json_and_takes_what_the_file_takes() -> None:
    schema = json.loads(json.dumps(ClusterSpec.model_json_schema()))
    assert {"name", "model", "pools"} == set(schema["required"])
    assert "async" in schema["$defs"]["Classes"]["properties"]
    assert set(schema["properties"]) == set(ClusterSpec.model_fields)


TEXTS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSpec:
    """Whole files that are right, with every kind of part."""
    count = draw(st.integers(1, 4))
    pools = [
        {
            "name": f"p{n}",
            "model": f"m{n}",
            "role": draw(st.sampled_from(["chat", "long", "multimodal", "batch"])),
            "cap": draw(st.integers(count, 500)),
            "replicas": [
                {
                    "url": f"http://host-{n}-{m}:{draw(st.integers(1, 65535))}",
                    "id": f"{n}.{m}",
                    "weight": draw(st.floats(0, 1)),
                    "node": draw(st.none() | TEXTS),
                    "group": "east",
                }
                for m in range(draw(st.integers(1, 3)))
            ],
        }
        for n in range(draw(st.integers(1, 4)))
    ]
    gateway = {
        "gateways": count,
        "keys": draw(st.sampled_from([{"file": "/keys"}, {"variable": "KEYS"}])),
        "tenants": draw(st.dictionaries(TEXTS, st.builds(dict, burst_s=st.floats(0.1, 100)), max_size=3)),
        "failover": draw(st.sampled_from([[], ["east"]])),
        "classes": {"async": {"max_wait_s": draw(st.floats(30.1, 86_400))}},
        "limits": {"max_tokens": draw(st.integers(1, 10_000_000))},
        "access_log": {"path": draw(st.none() | st.just("/log"))},
    }
    return cluster_from({"name": draw(TEXTS), "model": draw(TEXTS), "pools": pools, "gateway": gateway})


@given(clusters())
def test_a_file_that_was_written_is_read_as_it_was(spec: ClusterSpec) -> None:
    with tempfile.TemporaryDirectory() as folder:
        read = read_cluster(write(Path(folder), spec.model_dump(mode="json", by_alias=True)), {})
    assert read == spec and differences(read, spec) == ()


@given(clusters(), st.integers(1, 64_000), st.randoms())
def test_two_files_differ_exactly_where_they_were_changed(
    one: ClusterSpec, cap: int, chance: random.Random
) -> None:
    pools = [pool.model_dump() for pool in one.pools]
    chance.shuffle(pools)
    changed = chance.choice(pools)
    was, changed["cap"] = changed["cap"], cap + 600
    other = cluster_from({**one.model_dump(), "pools": pools})
    assert differences(one, other) == (f"pools.{changed['name']}.cap",)
    changed["cap"] = was
    assert differences(one, cluster_from({**one.model_dump(), "pools": pools})) == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(ClusterSpec.model_fields)), JSON)
def test_any_value_in_any_place_is_taken_or_refused_in_one_line(key: str, value: Any) -> None:
    try:
        a_cluster(**{key: value})
    except KilocardError as error:
        assert "\n" not in str(error) and len(str(error)) < 1000
