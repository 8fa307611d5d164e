"""The command `lsa-jax` of a checkout that is not installed: `python -m lsa_jax diagnose ...`."""

from lsa_jax.diagnosis.command import run

if __name__ == "__main__":
    run()
