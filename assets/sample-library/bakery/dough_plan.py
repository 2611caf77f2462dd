"""Tomorrow's doughs from tomorrow's orders.

Reads orders.csv, adds the shop's own shelf, and prints how much of each dough to mix tonight.
"""

import csv
import datetime
import sys
from collections import Counter

# Grams of dough per piece: the oven takes about an eighth of it.
DOUGH_GRAMS = {"wharf rye": 1150, "shokupan": 620, "lock keeper's bun": 95, "seeded spelt": 870}

# What stands on the shelf on a normal day, before any order.
SHELF = {"wharf rye": 14, "lock keeper's bun": 60, "seeded spelt": 8}

# On regatta day we sell out by ten: three times the buns, learned in 2024.
REGATTA_BUN_FACTOR = 3


def pieces(rows, day, regatta=False):
    """Pieces to bake on `day` (an ISO date), by product."""
    total = Counter(SHELF)
    if datetime.date.fromisoformat(day).weekday() == 5:
        total["shokupan"] += 6  # Saturdays only
    if regatta:
        total["lock keeper's bun"] *= REGATTA_BUN_FACTOR
    for row in rows:
        if row["date"] == day:
            total[row["product"]] += int(row["pieces"])
    return total


def dough_kilograms(total):
    """Kilograms of dough to mix, with three per cent for what sticks to the trough."""
    return {name: round(count * DOUGH_GRAMS[name] * 1.03 / 1000, 1) for name, count in total.items()}


if __name__ == "__main__":
    with open("orders.csv", newline="", encoding="utf-8") as file:
        plan = pieces(csv.DictReader(file), sys.argv[1], "--regatta" in sys.argv)
    for name, kilograms in sorted(dough_kilograms(plan).items()):
        print(f"{kilograms:7.1f} kg  {name}")
