"""The app directory that `flwr run` takes: the file, and two modules that make Flower's apps from it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from tacit.config.load import resolved
from tacit.config.source import ConfigError
from tacit.kinds.horizontal.settings import Settings
from tacit.runs.load import load
from tacit.version import __version__

PACKAGE = "tacit_app"
_SLOW = 60_000  # milliseconds: a message through Flower's runtime takes about 12 s

_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "1.0.0"
description = "A Tacit federation"
dependencies = ["flwr==1.41.0", "tacit=={version}"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "tacit"

[tool.flwr.app.components]
serverapp = "{package}.server:app"
clientapp = "{package}.client:app"

[tool.flwr.app.config]
runs = "runs"  # where the coordinator leaves its results
local = ""  # the coordinator's own file: keys, task_options
"""

_MODULE = '''\
"""The {what} of federation.yaml."""

from pathlib import Path

from tacit.flower import {maker}

app = {maker}(Path(__file__).with_name("federation.yaml"))
'''


def load_federation(file: Path, overrides: Sequence[str] = ()) -> Settings:
    """The settings of a file, if they are of a horizontal federation."""
    settings = load(file, overrides)
    if not isinstance(settings, Settings):
        raise ConfigError(f"kind is {settings.kind}: only a horizontal federation can be run like this")
    return settings


def write_project(file: Path, folder: Path, overrides: tuple[str, ...] = ()) -> list[str]:
    """Write the directory, and return warnings."""
    settings = load_federation(file, overrides).networked()
    if settings.simulation.insecure_noise_seed is not None:
        raise ConfigError("simulation.insecure_noise_seed fixes the noise of real parties: leave it out of the file")
    try:
        folder.mkdir(parents=True)
        package = folder / PACKAGE
        package.mkdir()
        name = settings.name.lower().replace("_", "-").replace(".", "-")
        text = _PYPROJECT.format(name=name, version=__version__, package=PACKAGE)
        (folder / "pyproject.toml").write_text(text)
        (package / "__init__.py").write_text("")
        (package / "federation.yaml").write_text(resolved(settings))
        (package / "server.py").write_text(_MODULE.format(what="coordinator", maker="server_app"))
        (package / "client.py").write_text(_MODULE.format(what="clients", maker="client_app"))
        module = file.resolve().parent / f"{settings.task.partition(':')[0].partition('.')[0]}.py"
        if ":" in settings.task and module.exists():
            shutil.copy(module, package / module.name)
    except FileExistsError:
        raise ConfigError(f"{folder} exists: choose another name, or remove it") from None
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}") from None
    return _thoughts(settings)


def _thoughts(settings: Settings) -> list[str]:
    found = []
    if settings.masked and settings.encrypt.pw_encrypt.cipher_time_window < _SLOW:
        found.append(
            f"cipher_time_window is {settings.encrypt.pw_encrypt.cipher_time_window} ms, and a message through Flower "
            f"takes about 12 s: take {_SLOW} or more"
        )
    if settings.signs:
        found.append("mode is active: every SuperNode and the coordinator need keys (tacit keys), named by tacit-local")
    return found
