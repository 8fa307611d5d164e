"""What the documentation's Markdown differs in from the usual."""

from markdown import Extension, Markdown


class _AnglesAreText(Extension):
    """Lets <w, x> in a docstring be a product of vectors, and no HTML tag that is never closed."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.deregister("html")


def on_config(config):
    """Adds the extension to those of mkdocs.yml, for pages and docstrings alike."""
    config.markdown_extensions.append(_AnglesAreText())
    return config
