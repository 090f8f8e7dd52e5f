"""The look of figures: colours, grids, axes, legends, captions, and how figures are saved.

Needs matplotlib, the `plot` extra, which is imported only when a figure is drawn. Figures are
drawn without global state and saved without a date: the same result gives the same file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stream_dp.errors import missing_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, distinct with any colour vision; markers and dashes differ as well.
INK, GREY, BLUE, ORANGE, GREEN = "#222222", "#767676", "#0072B2", "#D55E00", "#009E73"
PURPLE = "#9F3A86"
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "text.parse_math": False,
    "svg.hashsalt": "stream-dp",
}


def logarithmic(axes: Axes, rhos: Sequence[float]) -> None:
    """Makes both axes logarithmic, with the rhos (if few) and 1, 2, 5, 10, ... as ticks."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    if len(rhos) <= 6:
        axes.set_xticks(rhos, [f"{rho:g}" for rho in rhos])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def legend(figure: Figure, axes: Axes) -> None:
    """Puts a legend of the lines of `axes` above the figure."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))


def caption(figure: Figure, text: str) -> None:
    """Puts small text below the figure, from the left edge."""
    figure.supxlabel(text, fontsize=7.5, color=INK, x=0.01, ha="left")


def axes_grid(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Makes a figure with a grid of axes. Returns the figure, and the axes row by row.

    width, height: of each of the axes, in inches.
    """
    from matplotlib.figure import Figure

    size = (max(width * columns, 5.5), height * rows + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    return figure, [axes for row in grid for axes in row]


def styled() -> AbstractContextManager[None]:
    """Sets the style of all figures while drawing and saving.

    Raises UserError without matplotlib.
    """
    try:
        import matplotlib
    except ImportError:
        raise missing_extra("figures need matplotlib", "plot") from None
    return matplotlib.rc_context(_STYLE)


def save(figure: Figure, target: Path) -> None:
    """Saves a figure as SVG, without the date."""
    figure.savefig(target, format="svg", metadata={"Date": None})


def save_all(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Saves figures by their names to a folder, and returns the paths.

    Creates the folder if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = {folder / f"{name}.svg": figure for name, figure in figures.items()}
    for path, figure in paths.items():
        save(figure, path)
    return list(paths)
