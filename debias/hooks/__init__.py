"""The interface of plugins: hooks, contracts of scorers and meta-methods, and the registry that finds them.

- ``specs``: the hooks that a plugin may implement. An adapter of a library implements the hooks about models.
- ``contracts``: what a scorer and a meta-method must offer (protocols), and the `Problem` of a meta-method.
- ``scorers`` and ``meta_methods``: decorators that make them from plain functions.
- ``wrapping``: how an adapter describes a model around other models.
- ``registry``: finds plugins by their entry points. ``expressions``: reads ``"threshold(mdi_oob)"``.
"""
