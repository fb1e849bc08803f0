"""The commands that this wheel adds to ``confrere``, the module that each is in, and groups."""

MODULES = {
    **dict.fromkeys(("home", "init", "check", "cost", "assessment", "fit", "status"), "studies"),
    **dict.fromkeys(("approve", "coordinator"), "studies"),
    **dict.fromkeys(("keys", "provision", "kit"), "keys"),
    "party": "party",
    "dashboard": "dashboard",
}

GROUPS = {
    "keys": "Make keys, and show fingerprints to compare by telephone.",
    "kit": "Look into a kit, or open it in its participant's home or folder.",
}
