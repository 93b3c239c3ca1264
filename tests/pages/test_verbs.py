"""The page of commands has every verb and option, and every exit code."""

import click

from pages.verbs import EXITS, commands, page
from tacit.cli import VERBS, exits, main


def test_every_verb_and_option_is_on_the_page():
    text = page()
    names = [name for name, _ in commands(main)]
    assert {f"tacit {verb}" for verb in VERBS} <= set(names)
    for name, command in commands(main):
        assert f"## `{name}`" in text
        for each in command.params:
            if isinstance(each, click.Option) and not each.hidden:
                assert all(option in text for option in each.opts)


def test_every_option_says_what_it_is_for():
    for name, command in commands(main):
        for each in command.params:
            if isinstance(each, click.Option) and not each.hidden:
                assert each.help, (name, each.name)


def test_every_exit_code_is_on_the_page():
    codes = {name: value for name, value in vars(exits).items() if name.isupper() and type(value) is int}
    assert list(EXITS) == list(codes)
    for name, value in codes.items():
        assert f"| {value} | `{name}` |" in page()
