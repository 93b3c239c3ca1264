"""The pages of keys have every key that a file may have, and say what it means."""

import pytest

from pages.keys import every_key, meaning, meanings, page, since
from tacit import kind
from tacit.config.local import Local

FILES = {**{name: kind.find(name).settings for name in kind.names()}, "local": Local}


def in_schema(model):
    """Every key by the JSON schema that pydantic makes of the settings, which is not how the page finds them."""
    whole = model.model_json_schema(by_alias=False)

    def sections(schema):
        if "$ref" in schema:
            yield whole["$defs"][schema["$ref"].rpartition("/")[2]]
        for option in schema.get("anyOf", []):
            yield from sections(option)

    def walk(schema, before):
        for name, inner in schema.get("properties", {}).items():
            options = [inner, *inner.get("anyOf", [])]
            free = [value for each in options for value in _values(each) if list(sections(value))]
            nested = [(f"{before}{name}.", each) for each in sections(inner)]
            nested += [(f"{before}{name}.*.", each) for value in free for each in sections(value)]
            others = [each for each in inner.get("anyOf", [inner]) if "$ref" not in each and each.get("type") != "null"]
            if not nested or any(not _values(each) for each in others if each is not inner):
                yield before + name
            for path, each in nested:
                yield from walk(each, path)

    return set(walk(whole, ""))


def _values(schema):
    found = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
    return [each for each in found if isinstance(each, dict)]


def as_listed(path):
    return ".".join("*" if part.isupper() and len(part) > 2 else part for part in path.split("."))


@pytest.mark.parametrize("name", FILES)
def test_every_key_of_the_settings_is_on_the_page(name):
    assert {as_listed(key.path) for key in every_key()[name]} == in_schema(FILES[name])
    for key in every_key()[name]:
        assert f"| `{key.name}` |" in page(name)


@pytest.mark.parametrize("name", FILES)
def test_every_key_says_what_it_means(name):
    """If this fails, add a sentence to pages/meanings.yaml and run python -m pages."""
    for key in every_key()[name]:
        assert meaning(key).strip(), key.path
        assert meaning(key).endswith("."), key.path
        assert since(key).count(".") == 2, key.path


def test_no_meaning_is_of_a_key_that_is_gone():
    known = {(key.owner.removeprefix("tacit."), key.name) for keys in every_key().values() for key in keys}
    written = {(owner, name) for owner, names in meanings().items() if owner != "since" for name in names}
    assert written <= known


def test_ranges_defaults_and_other_spellings_are_those_of_the_settings():
    keys = {key.path: key for key in every_key()["horizontal"]}
    assert keys["round.over_select"].takes == "number, at least 1 and at most 3"
    assert keys["rounds"].default == "required"
    assert keys["encrypt.encrypt_type"].takes == "`NOT_ENCRYPT`, `DP_ENCRYPT`, `PW_ENCRYPT`, `DDP_ENCRYPT`"
    assert "encrypt.share_client_ratio" in keys["encrypt.pw_encrypt.share_secrets_ratio"].also
    assert "update_model_ratio" in keys["round.update_model_ratio"].also
    vertical = {key.path: key for key in every_key()["vertical_logistic"]}
    assert vertical["data.PARTY.columns.COLUMN.bins"].default == "`10`"
    assert vertical["parties.PARTY.address"].takes == "text, HOST:PORT"
