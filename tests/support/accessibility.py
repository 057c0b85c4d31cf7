"""What axe finds wrong in a page for people who read it by other means than their eyes."""

import json
from importlib import resources

RUN = """
axe.run(document, {resultTypes: ["violations"]}).then(found => JSON.stringify(found.violations.map(
    each => `${each.id} (${each.impact}): ${each.help}; ${each.nodes[0].html.slice(0, 200)}`)))
"""


def violations(browser, path, width=1280, scheme="light"):
    """Return one line for each rule of axe that a page breaks, with the first place."""
    browser.call("Page.setBypassCSP", enabled=True)  # the page forbids every script but its own
    try:
        browser.open(path, width=width, scheme=scheme)
        browser.evaluate(
            resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8") + "; 0"
        )
        found = browser.call("Runtime.evaluate", expression=RUN, awaitPromise=True, returnByValue=True)
    finally:
        browser.call("Page.setBypassCSP", enabled=False)
    return json.loads(found["result"]["value"])
