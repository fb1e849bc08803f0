"""provision and kit: one signed archive for every participant of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from confrere.cli.envelope import Answer, command, good
from confrere.cli.key_access import need_flower, signing_key
from confrere.cli.options import StudyFile
from confrere.errors import StudyError

Kit = Annotated[Path, typer.Argument(metavar="KIT", help="The archive.")]


@command("provision")
def provision(
    study: StudyFile,
    requests: Annotated[
        list[Path],
        typer.Option("--requests", help="A party's request (keys request), or a folder of them."),
    ],
    key: Annotated[Path, typer.Option(help="The coordinator's private key: it signs the kits.")],
    host: Annotated[str, typer.Option(help="Address by which parties reach the coordinator.")],
    out: Annotated[Path, typer.Option(help="The folder of the kits.")] = Path("kits"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Its port.")] = 8443,
    days: Annotated[
        int, typer.Option(min=1, max=3650, help="How long its certificate is good.")
    ] = 365,
    renew: Annotated[
        bool, typer.Option("--renew", help="Write over kits that are there: a new certificate.")
    ] = False,
) -> Answer:
    """Make a signed kit for every participant: the study, certificates, where you are reached."""
    need_flower()
    from confrere.provision import make_kits, read_request
    from confrere.release import fingerprint
    from confrere.study.study_file import read_bytes

    files = [
        file
        for path in requests
        for file in (sorted(path.glob("*.request")) if path.is_dir() else [path])
    ]
    if not files:
        raise StudyError("--requests: there is no .request file; a party makes it: keys request.")
    found = [read_request(path) for path in files]
    opened = signing_key(key)
    written = make_kits(
        read_bytes(study, "the study"),
        found,
        opened,
        out,
        host=host,
        port=port,
        days=days,
        renew=renew,
    )
    own = fingerprint(opened.public_key())
    seen = [good("wrote", path) for path in written]
    return Answer(
        f"fingerprint {own}: tell it to every party by telephone, and compare theirs: "
        + ", ".join(f"{one.party} {one.fingerprint}" for one in found),
        {
            "kits": [str(path) for path in written],
            "fingerprint": own,
            "parties": {one.party: one.fingerprint for one in found},
        },
        [*seen],
    )


@command("kit open")
def open_(
    kit: Kit,
    fingerprint: Annotated[
        str, typer.Option(help="The coordinator's, SHA256:..., as told by telephone.")
    ],
    into: Annotated[
        Path | None,
        typer.Option(
            help="A party's home, by default CONFRERE_HOME or the user's; a coordinator's folder."
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Which of the home's data sets the study is about, if it has several."),
    ] = None,
) -> Answer:
    """Check a kit's signature; write its files, a local file, a unit and a README made here."""
    need_flower()
    from confrere.provision import open_kit

    found, place = open_kit(kit, into, fingerprint, dataset=dataset)
    return Answer(
        f"the kit of {found.participant}; next: read {place / 'README.md'}",
        {
            "participant": found.participant,
            "study_sha256": found.study_sha256,
            "folder": str(place),
        },
    )


@command("kit show")
def show(kit: Kit) -> Answer:
    """Say whose a kit is, who signed it and what is in it; writes nothing."""
    need_flower()
    from confrere.provision import show_kit

    found = show_kit(kit)
    return Answer(
        f"the kit of {found.participant}, signed by {found.fingerprint}",
        {
            "participant": found.participant,
            "fingerprint": found.fingerprint,
            "study_sha256": found.study_sha256,
            "files": sorted(found.files),
            "made_here": sorted(found.pages),
        },
        text="".join(f"{name}\n" for name in sorted(found.files)),
    )
