"""Draw docs/pictures/noise.svg: the importances of the demo, as reported and debiased. A real run, nothing by hand."""

from pathlib import Path

import matplotlib.pyplot as plt

from debias_bench.demo import UNIQUE, demo_audits


def main(path):
    """Audit the demo's forest, and write the picture: SVG for the README and the site, PNG for previews of links."""
    audit = next(demo_audits(seed=0, n_jobs=2))
    table = audit.to_frame().rename(index={UNIQUE: "random row number", "noise_binary": "random yes/no"})
    plt.rcParams.update({"svg.hashsalt": "debias", "svg.fonttype": "path", "font.size": 10})
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.4), sharex=True)
    for axes, column, title in (
        (panels[0], "reported", "as scikit-learn reports it"),
        (panels[1], "share", "debiased: rows each tree has not seen"),
    ):
        shares = table[column].sort_values()
        colours = ["#d55e00" if name.startswith("random") else "#9db8c9" for name in shares.index]
        axes.barh(shares.index, shares, color=colours)
        axes.set_title(title, fontsize=10)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.spines[["top", "right"]].set_visible(False)
        for label, colour in zip(axes.get_yticklabels(), colours, strict=True):
            label.set_color("#d55e00" if colour == "#d55e00" else "#222222")
    figure.supxlabel("share of the importance", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=120, metadata={"Software": None})


if __name__ == "__main__":
    main(Path(__file__).with_suffix(".svg"))
