"""One room a paper; in it one folder an experiment, which `lsa_jax.sweep.fields` finds."""
