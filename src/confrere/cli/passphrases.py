"""Where services put the passphrases of keys; people are asked for them."""

NODE_PASSPHRASE = "CONFRERE_NODE_PASSPHRASE"  # noqa: S105  the name of a variable
KEY_PASSPHRASE = "CONFRERE_KEY_PASSPHRASE"  # noqa: S105
