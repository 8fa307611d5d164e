"""The settings of each experiment: defaults, accepted values and how they must fit together.

One module an experiment, with `default_config()` and `validate(config)`. None of them imports jax.
"""
