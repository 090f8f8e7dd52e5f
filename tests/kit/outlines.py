"""Outlines of regions as GeoJSON: cells of a grid."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path


def write_outlines(path: Path, names: Sequence[str], columns: int = 3) -> Path:
    """Writes a square for each name, row by row; the first has a hole, the second two parts."""
    features = []
    for number, name in enumerate(names):
        x, y = 10.0 + number % columns, 50.0 - number // columns
        ring = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]
        hole = [[x + a, y + b] for a, b in ((0.4, 0.4), (0.6, 0.4), (0.6, 0.6), (0.4, 0.6))]
        geometry: dict[str, object] = {"type": "Polygon", "coordinates": [ring]}
        if number == 0:
            geometry["coordinates"] = [ring, hole]
        if number == 1:
            island = [[a + 0.2, b + 3.2] for a, b in ring[:2]] + [[x + 0.5, y + 4]]
            geometry = {"type": "MultiPolygon", "coordinates": [[ring], [island]]}
        features.append({"type": "Feature", "properties": {"name": name}, "geometry": geometry})
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path
