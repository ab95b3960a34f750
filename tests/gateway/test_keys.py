"""Keys: only their hashes are kept, only the right one opens, and no fault tells a secret."""

from __future__ import annotations

import hashlib
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.gateway import keys
from kilocard.gateway.keys import (
    KeyRing,
    keys_from,
    make_key,
    presented_key,
    read_key,
    read_keys,
    read_secret,
)
from kilocard.specs.cluster import Secret

NOW_S = 1_800_000_000.0
HASH = "sha256:" + hashlib.sha256(b"x").hexdigest()


def test_a_key_that_was_made_opens_and_is_kept_nowhere() -> None:
    key, line = make_key("acme-1", tenant="acme")
    ring = keys_from(line)
    found = ring.find(key.encode(), NOW_S)
    assert found is not None and (found.name, found.tenant) == ("acme-1", "acme")
    assert key not in line and key.removeprefix(keys.PREFIX) not in line
    assert found.digest.hex() not in repr(found)
    assert ring.tenants == {"acme"}


def test_keys_are_long_and_never_the_same() -> None:
    made = {make_key("a")[0] for _ in range(100)}
    assert len(made) == 100
    assert all(key.startswith(keys.PREFIX) and len(key) >= 43 for key in made)


@given(st.lists(st.binary(max_size=64), min_size=1, max_size=20, unique=True), st.data())
def test_a_key_opens_exactly_when_it_is_on_the_ring(known: list[bytes], data: st.DataObject) -> None:
    ring = keys_from(
        "\n".join(f"k{n} sha256:{hashlib.sha256(key).hexdigest()}" for n, key in enumerate(known))
    )
    presented = data.draw(st.sampled_from(known) | st.binary(max_size=64))
    found = ring.find(presented, NOW_S)
    assert (found.name if found else None) == (f"k{known.index(presented)}" if presented in known else None)


def test_every_hash_is_compared_whichever_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [make_key(f"k{n}") for n in range(5)]
    ring = keys_from("\n".join(line for _, line in made))
    compared: list[bytes] = []
    monkeypatch.setattr(keys, "compare_digest", lambda a, b: compared.append(a) or a == b)
    for key, _ in made:
        compared.clear()
        assert ring.find(key.encode(), NOW_S)
        assert compared == [held.digest for held in ring.keys]


def test_a_key_ends_with_its_day() -> None:
    key, line = make_key("a", expires=date(2027, 6, 30))
    ring = keys_from(line)
    (held,) = ring.keys
    assert ring.find(key.encode(), held.expires_s - 1) is held
    assert ring.find(key.encode(), held.expires_s) is None
    assert held.expires_s == 1_814_400_000  # 2027-07-01T00:00:00Z


@pytest.mark.parametrize(
    ("header", "key"),
    [
        (b"Bearer abc", b"abc"),
        (b"bearer  abc ", b"abc"),
        (b"BEARER abc", b"abc"),
        (b"Basic abc", b""),
        (b"abc", b""),
        (b"Bearer", b""),
        (b"", b""),
        (b"Bearerabc", b""),
    ],
)
def test_only_a_bearer_presents_a_key(header: bytes, key: bytes) -> None:
    assert presented_key(header) == key


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no key is there"),
        ("# acme\n", "no key is there"),
        ("acme kc-secret", "line 1: it holds no hash"),
        (f"a {HASH}\nkc-secret", "line 2: it holds no hash"),
        (f"acme {HASH.upper()}", "it holds no hash"),
        (f"acme {HASH[:-1]}", "it holds no hash"),
        (f"a/secret {HASH}", "a name is 1 to 63 letters"),
        (f"a {HASH} tenat=b", "unknown option 'tenat': did you mean 'tenant'?"),
        (f"a {HASH} tenant=", "a name is 1 to 63 letters"),
        (f"a {HASH} tenant=b tenant=c", "tenant is there twice"),
        (f"a {HASH} expires=soon", "expires=soon is no day"),
        (f"a {HASH} expires=2027-02-30", "expires=2027-02-30 is no day"),
        (f"a {HASH} expires=9999-12-31", "expires=9999-12-31 is no day"),
        (f"a {HASH}\na sha256:{'0' * 64}", "two keys are called a"),
        (f"a {HASH}; b {HASH}", "one key is there under two names"),
    ],
)
def test_a_fault_is_told_by_its_line_and_without_the_secret(text: str, said: str) -> None:
    with pytest.raises(KilocardError) as refusal:
        keys_from(text, "keys.txt")
    told = str(refusal.value)
    assert told.startswith("keys.txt") and said in told
    assert "secret" not in told and "\n" not in told and HASH not in told


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        assert isinstance(keys_from(text), KeyRing)
    except KilocardError as error:
        assert "\n" not in str(error) and len(str(error)) < 300


def test_too_many_keys_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MOST_KEYS", 1)
    with pytest.raises(KilocardError, match="more than 1 keys"):
        keys_from(f"a {HASH}\nb sha256:{'0' * 64}")


def test_a_ring_is_read_again_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    old_key, old_line = make_key("old", tenant="acme")
    new_key, new_line = make_key("new", tenant="acme")
    file.write_text(f"# ours\n{old_line}  # until June\n{new_line}\n")
    place = Secret(file=str(file))
    both = read_keys(place)
    assert both.find(old_key.encode(), NOW_S) and both.find(new_key.encode(), NOW_S)
    file.write_text(new_line)
    one = read_keys(place)
    assert one.find(old_key.encode(), NOW_S) is None and one.find(new_key.encode(), NOW_S)
    file.write_text("nonsense")
    with pytest.raises(KilocardError):
        read_keys(place)
    assert one.find(new_key.encode(), NOW_S)


def test_a_variable_holds_keys_parted_by_semicolons(monkeypatch: pytest.MonkeyPatch) -> None:
    (one, first), (two, second) = make_key("a"), make_key("b")
    monkeypatch.setenv("KEYS_OF_TEST", f"{first};{second}")
    ring = read_keys(Secret(variable="KEYS_OF_TEST"))
    assert ring.find(one.encode(), NOW_S) and ring.find(two.encode(), NOW_S)
    monkeypatch.delenv("KEYS_OF_TEST")
    with pytest.raises(KilocardError, match="the variable KEYS_OF_TEST is not set"):
        read_keys(Secret(variable="KEYS_OF_TEST"))


def test_files_that_others_may_write_or_that_are_none_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(make_key("a")[1])
    file.chmod(0o666)
    with pytest.raises(KilocardError, match="chmod o-w"):
        read_keys(Secret(file=str(file)))
    for place in (tmp_path, tmp_path / "gone", Path("/dev/zero")):
        with pytest.raises(KilocardError, match=r"^(cannot read|anybody may write)"):
            read_secret(Secret(file=str(place)))
    file.chmod(0o600)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(KilocardError, match="no UTF-8"):
        read_secret(Secret(file=str(file)))


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "x" * 64, "-a"])
def test_a_key_needs_a_name_that_fits_on_its_line(name: str) -> None:
    with pytest.raises(KilocardError, match="is no name of a key"):
        make_key(name)


@pytest.mark.parametrize("line", ["NAME {}", "{} sha256:" + "0" * 64, "a sha256:" + "0" * 64 + " {}"])
def test_a_key_itself_is_refused_and_not_repeated(line: str) -> None:
    key, _ = make_key("a")
    with pytest.raises(KilocardError) as refusal:
        keys_from(line.format(key))
    assert "a key itself stands there" in str(refusal.value) and key[:12] not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "two words", "two\nlines", "schlüssel", "a\x00b"])
def test_a_key_that_no_header_carries_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(KilocardError, match="holds no single key") as refusal:
        read_key(Secret(file=str(tmp_path / "key")))
    assert not text or text not in str(refusal.value)
    (tmp_path / "key").write_text(" a-key\n")
    assert read_key(Secret(file=str(tmp_path / "key"))) == "a-key"
