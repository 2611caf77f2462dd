"""Gear ratios of bicycles: development, gain ratio, and which gears are doubled."""

import math

WHEEL_MM = {"700x28": 2136, "26x1.75": 2023, "16x1.5": 1245}


def development(chainring, sprocket, wheel="700x28"):
    """Metres that one turn of the pedals moves the bicycle."""
    return WHEEL_MM[wheel] / 1000 * chainring / sprocket


def doubled(chainrings, sprockets, tolerance=0.03):
    """Pairs of gears whose developments differ by less than the tolerance."""
    gears = [(c, s, c / s) for c in chainrings for s in sprockets]
    pairs = []
    for index, one in enumerate(gears):
        for other in gears[index + 1:]:
            if abs(math.log(one[2] / other[2])) < tolerance:
                pairs.append((one[:2], other[:2]))
    return pairs


class HubGear:
    """A hub gear by its internal ratios."""

    def __init__(self, name, ratios):
        self.name = name
        self.ratios = ratios

    def spread(self):
        """Highest over lowest gear, in percent."""
        return round(100 * max(self.ratios) / min(self.ratios))


NEXUS_8 = HubGear("Nexus 8", [0.527, 0.644, 0.748, 0.851, 1.0, 1.223, 1.419, 1.615])
