"""A signed pack of files, and what becomes of one that was changed or made to do harm."""

from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.signing import SigningKey
from tacit.store import pack
from tacit.store.pack import BadPack, read_pack, write_pack
from tests.runs.packs import KEY, repacked, unpacked

FILES = {"config.yaml": b"kind: horizontal\n", "events.jsonl": b"{}\n" * 40, "ledgers.json": b"{}"}
OTHER = SigningKey(bytes(32))


@pytest.fixture
def made(tmp_path):
    path = tmp_path / "pack.zip"
    write_pack(path, FILES, {"name": "fleet"}, KEY)
    return path


def test_it_gives_back_what_was_packed(made):
    found = read_pack(made)
    assert found.files == FILES
    assert found.manifest["name"] == "fleet"
    found.check_signature(KEY.public)


def test_the_same_files_make_the_same_bytes(made, tmp_path):
    write_pack(tmp_path / "again.zip", dict(reversed(FILES.items())), {"name": "fleet"}, KEY)
    assert (tmp_path / "again.zip").read_bytes() == made.read_bytes()


@pytest.mark.parametrize("name", sorted(FILES))
@given(data=st.data())
def test_a_changed_byte_of_any_file_is_found(tmp_path_factory, name, data):
    path = tmp_path_factory.mktemp("pack") / "pack.zip"
    write_pack(path, FILES, {}, KEY)
    files = unpacked(path)
    at = data.draw(st.integers(0, len(files[name]) - 1))
    changed = bytearray(files[name])
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadPack, match=f"{name} is not the file that the manifest names"):
        read_pack(repacked(path, {**files, name: bytes(changed)}))


@given(data=st.data())
def test_a_changed_byte_of_the_manifest_or_the_signature_is_found(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("pack") / "pack.zip"
    write_pack(path, FILES, {}, KEY)
    files = unpacked(path)
    name = data.draw(st.sampled_from([pack.MANIFEST, pack.SIGNATURE]))
    at = data.draw(st.integers(0, len(files[name]) - 1))
    changed = bytearray(files[name])
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadPack):
        read_pack(repacked(path, {**files, name: bytes(changed)})).check_signature(KEY.public)


@pytest.mark.parametrize("name", [*sorted(FILES), pack.MANIFEST, pack.SIGNATURE])
def test_a_removed_file_is_found(made, name):
    files = unpacked(made)
    del files[name]
    with pytest.raises(BadPack, match=f"{name} is (missing|in the manifest, and not in the pack)"):
        read_pack(repacked(made, files))


def test_an_added_file_is_found(made):
    with pytest.raises(BadPack, match=r"audit\.json is in the pack, and not in the manifest"):
        read_pack(repacked(made, {**unpacked(made), "audit.json": b"{}"}))


def test_two_files_that_change_places_are_found(made):
    files = unpacked(made)
    files["config.yaml"], files["ledgers.json"] = files["ledgers.json"], files["config.yaml"]
    with pytest.raises(BadPack, match="it was changed"):
        read_pack(repacked(made, files))


def test_another_signer_is_found(made):
    with pytest.raises(BadPack, match="the signature is not of this key"):
        read_pack(made).check_signature(OTHER.public)


def test_a_manifest_that_is_signed_for_another_purpose_is_found(made):
    files = unpacked(made)
    files[pack.SIGNATURE] = KEY.sign(b"another purpose", files[pack.MANIFEST]).hex().encode() + b"\n"
    with pytest.raises(BadPack, match="the signature is not of this key"):
        read_pack(repacked(made, files)).check_signature(KEY.public)


def zipped(tmp_path, *entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *a, **k: None)
        for name, data in entries:
            archive.writestr(name, data)
    path = tmp_path / "bad.zip"
    path.write_bytes(buffer.getvalue())
    return path


@pytest.mark.parametrize("name", ["../../etc/passwd.json", "/a.json", "a/b.json", "a.exe", "A.json", ".json", "é.json"])
def test_a_name_that_could_lead_elsewhere_is_refused(tmp_path, name):
    with pytest.raises(BadPack, match="cannot be the name of a file in a pack"):
        read_pack(zipped(tmp_path, (name, b"{}")))


def test_a_file_that_is_there_twice_is_refused(tmp_path):
    with pytest.raises(BadPack, match="is there twice"):
        read_pack(zipped(tmp_path, ("a.json", b"{}"), ("a.json", b"[]")))


def _commented(data):
    with zipfile.ZipFile(buffer := io.BytesIO(data), "a") as archive:
        archive.comment = b"more"
    return buffer.getvalue()


@pytest.mark.parametrize(
    "changed",
    [lambda data: b"more" + data, lambda data: data + b"more", _commented],
    ids=["before", "after", "comment"],
)
def test_bytes_around_the_files_are_refused(made, changed):
    made.write_bytes(changed(made.read_bytes()))
    with pytest.raises(BadPack, match="bytes that belong to no file of the pack"):
        read_pack(made)


def test_bytes_between_the_files_are_refused(tmp_path):
    with zipfile.ZipFile(path := tmp_path / "pack.zip", "w") as archive:
        for name in ("one.json", "two.json"):
            info = zipfile.ZipInfo(name)
            info.extra = b"\x99\x99\x04\x00more"
            archive.writestr(info, b"{}")
    with pytest.raises(BadPack, match="bytes that belong to no file of the pack"):
        read_pack(path)


def test_too_many_files_are_refused(tmp_path):
    with pytest.raises(BadPack, match="at most 32"):
        read_pack(zipped(tmp_path, *((f"f{number}.json", b"") for number in range(33))))


def test_a_file_that_inflates_beyond_the_bound_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pack, "LARGEST", 1000)
    path = zipped(tmp_path, ("a.json", bytes(1001)))
    with pytest.raises(BadPack, match="too large"):
        read_pack(path)
    lying = path.read_bytes().replace((1001).to_bytes(4, "little"), (900).to_bytes(4, "little"))
    path.write_bytes(lying)
    with pytest.raises(BadPack):
        read_pack(path)


@given(st.binary(max_size=200))
def test_what_is_no_pack_is_refused_in_a_sentence(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("pack") / "pack.zip"
    path.write_bytes(data)
    with pytest.raises(BadPack, match=r"no pack|damaged|missing"):
        read_pack(path)


@given(st.data())
def test_a_flipped_bit_of_the_zip_file_changes_nothing_or_is_found(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("pack") / "pack.zip"
    write_pack(path, FILES, {}, KEY)
    raw = bytearray(path.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(raw)
    try:
        found = read_pack(path)
        found.check_signature(KEY.public)
    except BadPack:
        return
    assert found.files == FILES
