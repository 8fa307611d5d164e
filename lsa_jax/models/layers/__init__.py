"""The layers of networks, at finite and at infinite width.

A layer is a frozen dataclass with two short methods:

* `finite(x, module)` computes its outputs at finite width, as part of a flax module that holds its
  parameters;
* `infinite(parameterization)` returns the steps of its kernel at infinite width, of
  `kernels.infinite.steps`, or None where there is no such limit. Steps are evaluated by our own
  recursion or by neural-tangents (`method` of a kernel). A layer that only neural-tangents has is
  the step `NeuralTangents`, and networks with it are evaluated there.

A new layer is one such class; nothing else changes. A new nonlinearity derives from `Elementwise`,
and needs the function alone. Images are [n, height, width, channels].
"""
