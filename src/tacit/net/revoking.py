"""Taking back what a name was given: its certificates, and the tokens that it has not used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tacit.config.source import ConfigError
from tacit.net.authority_folder import AuthorityFolder, Issued
from tacit.net.enrolment_tokens import cancel
from tacit.net.pem_files import about, read_file
from tacit.net.revocation_list import RevocationList


def revoke_name(
    folder: AuthorityFolder, name: str, files: Sequence[Path] = (), reason: str = "unspecified"
) -> tuple[RevocationList | None, int]:
    """The next revocation list, if there was a certificate to revoke, and how many tokens are void.

    Args:
        files: certificates of this name, if only these are taken back, or an earlier release signed them, which kept
            no register. Otherwise all that are in the register.
    """
    if files:
        return folder.revoke([_given(folder, name, file) for file in files], reason), 0
    cancelled = cancel(folder, name)  # first: whatever a token was used for until now is in the register
    folder.revoked()  # neither the list nor the register was lost
    found = folder.issued(name)
    if not found and not cancelled:
        raise ConfigError(
            f"{name} has no certificate in the register of {folder.folder}: check the name, or give a certificate that "
            "an earlier release signed by --certificate FILE"
        )
    return (folder.revoke(found, reason) if found else None), cancelled


def _given(folder: AuthorityFolder, name: str, file: Path) -> Issued:
    data = read_file(file)
    with about(file):
        found = folder.given(data)
        if found.name != name:
            raise ValueError(f"the certificate is of {found.name}, not of {name}")
    return found
