"""Makes contract.pdf: two pages of a contract as a scanner gives them, pictures without a text layer.

Needs Pillow, NumPy and the fonts of Debian's fonts-dejavu-core. The same seed gives the same file.
"""

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

PAGES = [
    """Contract for a winter mooring

between Wells Boatyard and Mrs. Ida Berg,
owner of the boat Sandpiper.

The boat lies at berth 14 from October
until the end of April.
The rent is 740 euros for the season.""",
    """Payment and end of the contract

The deposit is 1,480 euros. It is returned
within four weeks after the boat has left.
Keys are handed over by the harbor master.

Either side may end this contract with
three months' notice in writing.""",
]

random = np.random.default_rng(5)
font = ImageFont.truetype("/usr/share/fonts/truetype/dejavu/DejaVuSerif.ttf", 26)
pages = []
for text in PAGES:
    page = Image.new("L", (874, 620), 255)
    ImageDraw.Draw(page).multiline_text((90, 80), text, font=font, fill=25, spacing=16)
    page = page.rotate(0.6, fillcolor=255, resample=Image.BICUBIC).filter(ImageFilter.GaussianBlur(0.6))
    points = np.asarray(page).astype(float) * 0.9 + 18 + random.normal(0, 5, (620, 874))
    pages.append(Image.fromarray(points.clip(0, 255).astype(np.uint8)))
pages[0].save("contract.pdf", save_all=True, append_images=pages[1:], resolution=105, quality=45)

# The same page for the networks alone, and what the reference library makes of it.
pages[0].save("page.jpg", quality=60)
try:
    import json

    from rapidocr import RapidOCR

    found = RapidOCR()("page.jpg")
    lines = [
        {"text": text, "sure": round(float(sure), 4), "box": [[round(float(it), 1) for it in point] for point in box]}
        for text, sure, box in zip(found.txts, found.scores, found.boxes)
    ]
    with open("page.json", "w", encoding="utf-8") as file:
        json.dump({"made_by": "rapidocr 3.10.0", "width": 874, "height": 620, "lines": lines}, file, indent=1)
        file.write("\n")
except ImportError:
    print("rapidocr is not installed: page.json stays as it is")
